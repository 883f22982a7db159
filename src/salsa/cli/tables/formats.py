"""File formats of tables, recognised by the endings of file names and checked by first bytes."""

import os
import re
from typing import NamedTuple

HEAD_BYTES = 512
KNOWN = ".csv and .tsv (also with .gz), .parquet and .feather; names without an ending and .txt mean CSV"

_MAGIC = {"parquet": b"PAR1", "feather": b"ARROW1"}
_OTHER_ENDING = re.compile(
    r"\.(xls[bmx]?|ods|docx?|pdf|html?|xml|jsonl?|salsa|pickle|pkl|joblib|np[yz]|hdf5|h5|arrow|orc|db|sqlite"
    r"|dta|sav|rds|rda|rdata|png|svg|zip|tar|tgz|bz2|xz|zst|7z)"
)
_PROBLEMS = {  # pattern of the first bytes of a file -> problem of this file as a table
    rb"PK\x03\x04.{26}header\.json": "is a model file, not a table",
    rb"PK\x03\x04.{26}(\[Content_Types|_rels/|docProps/|xl/)": "is a spreadsheet or document: save its table as CSV",
    rb"PK\x03\x04": "is a zip archive, not a table",
    rb"(\xef\xbb\xbf)?\s*(?i:<html|<!doctype html)": "is a web page, not a table",
    rb"\x1f\x8b": "is packed with gzip: rename it to end in .gz",
    rb"PAR1\x15": "is a Parquet file: rename it to end in .parquet",
    rb"ARROW1\x00": "is a Feather file: rename it to end in .feather",
    rb"\xff\xfe\x00\x00|\x00\x00\xfe\xff": "is text in UTF-32: save it in UTF-8",
    rb"\xff\xfe|\xfe\xff": "is text in UTF-16, and is not named like text: rename it to end in .csv",
    rb".*\x00": "is neither text nor a table of a known kind",
}
_WIDE = rb"(\xff\xfe|\xfe\xff)(?!\x00\x00)"  # the byte-order mark of text in UTF-16


class Format(NamedTuple):
    """The file format of a table."""

    kind: str  # "csv", "tsv", "parquet" or "feather"
    is_packed: bool

    @property
    def is_arrow(self) -> bool:
        return self.kind in _MAGIC

    @property
    def separator(self) -> str:
        return "\t" if self.kind == "tsv" else ","


def format_of(name: str) -> Format:
    """Return the format that the ending of a file name stands for, in any letter case."""
    ending = _ending(name)
    return Format(ending[1:] if ending in (".tsv", ".parquet", ".feather") else "csv", name.lower().endswith(".gz"))


def check_name(name: str) -> None:
    """Raise ValueError if a file name has the ending of another kind of file."""
    format = format_of(name)
    if _OTHER_ENDING.fullmatch(_ending(name)) or (format.is_arrow and format.is_packed):
        raise ValueError(f"{name} is not named like a table: known endings are {KNOWN}")


def check_head(title: str, head: bytes, format: Format) -> None:
    """Raise ValueError if the first bytes belong to another kind of file than the name says."""
    if format.is_arrow and head.startswith(_MAGIC[format.kind]):
        return
    is_wide = not format.is_arrow and re.match(_WIDE, head, re.DOTALL)
    for beginning, problem in _PROBLEMS.items():
        if re.match(beginning, head, re.DOTALL) and not is_wide:
            raise ValueError(f"{title} {problem}")


def _ending(name: str) -> str:
    return os.path.splitext(name.lower().removesuffix(".gz"))[1]
