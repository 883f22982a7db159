"""Model files: exact, safe, whole or not at all."""

import copy
import hashlib
import io
import json
import re
import struct
import subprocess
import sys
import tracemalloc
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from conftest import additive_truth
from sklearn.model_selection import KFold
from sums import sum_kernel, use_kernel

import salsa
from salsa import SalsaRegressor, SumKernel
from salsa.data.number_format import NumberFormat
from salsa.fitted import fitted_of
from salsa.persistence import archive
from salsa.persistence.archive import VERSION, write_archive
from salsa.persistence.function_state import expansion_from
from salsa.persistence.model_file import DATES, ITERATED, LIKELIHOOD, WITH_SUMS, WITHOUT_SUMS


@pytest.fixture
def model():
    return SalsaRegressor(random_state=0, order=[1, 2]).fit(*additive_truth(n=60))


@pytest.fixture
def path(model, tmp_path):
    model.save(tmp_path / "m.salsa")
    return tmp_path / "m.salsa"


@pytest.fixture
def sum_path(tmp_path, monkeypatch):
    """Save a model of 6 features whose kernel is a sum of three terms, of orders 2, 1 and 5."""
    use_kernel(monkeypatch)
    SalsaRegressor(order=5, alpha=1.0, random_state=0).fit(*additive_truth(n=60)).save(tmp_path / "s.salsa")
    return tmp_path / "s.salsa"


def unzipped(blob):
    with zipfile.ZipFile(io.BytesIO(blob)) as file:
        return {name: file.read(name) for name in file.namelist()}


def zipped(members, comment=None, method=zipfile.ZIP_DEFLATED):
    """Return a zip of (name or ZipInfo, bytes) pairs or of a dictionary; the comment is the digest of the header."""
    members = list(members.items()) if isinstance(members, dict) else members
    header = next((blob for name, blob in members if name == "header.json"), b"")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names that occur twice
        for name, blob in members:
            file.writestr(name, blob)
        file.comment = digest(header) if comment is None else comment
    return buffer.getvalue()


def digest(blob):
    return hashlib.sha256(blob).hexdigest().encode()


def consistent(members):
    """Return the members with checksums that match them."""
    header = json.loads(members["header.json"])
    header["checksums"] = {
        name.removesuffix(".npy"): digest(blob).decode() for name, blob in members.items() if name != "header.json"
    }
    return {**members, "header.json": json.dumps(header).encode()}


def rewrite(path, change):
    """Change the members of an archive by change(dict of name -> bytes)."""
    members = unzipped(path.read_bytes())
    change(members)
    path.write_bytes(zipped(members))


def with_header(**changes):
    def change(members):
        members["header.json"] = json.dumps({**json.loads(members["header.json"]), **changes}).encode()

    return change


def with_array(name, array):
    """The array, or the bytes given for its .npy file, with the right checksum."""

    def change(members):
        members[f"{name}.npy"] = array if isinstance(array, bytes) else npy(array)
        members.update(consistent(members))

    return change


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


class TestRoundTrip:
    def test_predictions_are_the_same_to_the_bit(self, model, path):
        X, _ = additive_truth(seed=5)
        again = salsa.load(path)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert again.search_.table.equals(model.search_.table)
        assert (again.order_, again.alpha_, again.n_features_in_) == (model.order_, model.alpha_, 6)

    def test_names_outputs_and_infinite_bandwidths_survive(self, tmp_path):
        X, y = additive_truth(n=50, D=3)
        frame = pd.DataFrame(X, columns=["länge", "b c", "x"]).assign(constant=1.0)
        model = SalsaRegressor(random_state=0).fit(frame, np.column_stack([y, -y]))
        model.save(tmp_path / "m")
        again = salsa.load(tmp_path / "m")
        assert list(again.feature_names_in_) == list(frame.columns)
        np.testing.assert_array_equal(again.predict(frame), model.predict(frame))

    def test_parameters_come_back_and_lost_ones_are_named(self, tmp_path):
        parameters = {
            "order": np.int64(2),
            "alpha": (0.1, 1.0),
            "bandwidth": np.ones(6),
            "random_state": 7,
            "cv": KFold(3),
        }
        SalsaRegressor(relevance="equal", **parameters).fit(*additive_truth(n=30)).save(tmp_path / "m")
        again = salsa.load(tmp_path / "m")
        assert (again.order, again.alpha, again.bandwidth, again.random_state) == (2, [0.1, 1.0], [1.0] * 6, 7)
        assert again.cv == 5
        assert again.search_.notes == ("parameters a model file cannot hold are at their defaults: cv",)

    def test_learned_kernels_and_their_race_come_back(self, tmp_path):
        X, y = additive_truth(n=120)
        model = SalsaRegressor(random_state=0).fit(X, y)
        model.save(tmp_path / "m")
        again = salsa.load(tmp_path / "m")
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert len(model.search_.race) >= 3
        assert again.search_.race.equals(model.search_.race)

    def test_a_loaded_model_can_be_fitted_again(self, path):
        again = salsa.load(path).set_params(order=2).fit(*additive_truth(n=60))
        assert again.order_ == 2

    def test_equal_models_give_equal_files(self, path):
        again = salsa.load(path)
        again.save(path.with_name("again"))
        assert path.with_name("again").read_bytes() == path.read_bytes()

    def test_only_sums_need_the_newest_format(self, path, sum_path):
        versions = [json.loads(unzipped(p.read_bytes())["header.json"])["version"] for p in (path, sum_path)]
        assert versions == [WITHOUT_SUMS, WITH_SUMS]
        assert WITH_SUMS < ITERATED < LIKELIHOOD < VERSION == DATES

    def test_terms_of_sums_come_back_to_the_bit(self, sum_path):
        found, expected = salsa.load(sum_path).expansion_.kernel, sum_kernel(("gaussian",) * 6)
        assert isinstance(found, SumKernel)
        for one, other in zip(found.terms, expected.terms, strict=True):
            assert (one.bases, one.order) == (other.bases, other.order)
            for name in ("bandwidth", "relevance", "order_weights"):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        again = sum_path.with_name("again")
        salsa.load(sum_path).save(again)
        assert again.read_bytes() == sum_path.read_bytes()

    def test_a_sum_of_one_term_stays_a_sum(self, tmp_path, monkeypatch):
        use_kernel(monkeypatch, lambda *given: SumKernel(sum_kernel(*given).terms[:1]))
        model = SalsaRegressor(order=2, alpha=1.0).fit(*additive_truth(n=60))
        model.save(tmp_path / "m")
        again = salsa.load(tmp_path / "m")
        assert isinstance(again.expansion_.kernel, SumKernel)
        np.testing.assert_array_equal(again.relevance_, model.relevance_)

    def test_version_2_is_read(self, model, path):
        def change(members):
            with_header(version=2)(members)

        rewrite(path, change)
        path.write_bytes(zipped(unzipped(path.read_bytes()), comment=b""))
        X, _ = additive_truth(seed=5)
        np.testing.assert_array_equal(salsa.load(path).predict(X), model.predict(X))

    @pytest.mark.parametrize("levels", [["a", "b"], [False, True], [2.5, 10**300]])
    def test_levels_of_every_kind_come_back(self, tmp_path, levels):
        X = pd.DataFrame({"level": levels * 10, "x": np.arange(20.0)})
        model = SalsaRegressor(order=1, alpha=1.0, categorical_features=["level"]).fit(X, np.arange(20))
        model.save(tmp_path / "m")
        again = salsa.load(tmp_path / "m")
        assert again.columns_ == model.columns_
        np.testing.assert_array_equal(again.predict(X), model.predict(X))

    def test_arrays_that_compress_beyond_the_limit_are_stored_plainly(self, tmp_path, monkeypatch):
        monkeypatch.setattr(archive, "UNPACKED", 0)
        X = np.zeros((400, 300))
        X[::40, 0] = 1.0
        model = SalsaRegressor(order=1, alpha=1.0, relevance="equal").fit(X, np.arange(400.0))  # no copies
        model.save(tmp_path / "m")
        assert (tmp_path / "m").stat().st_size > 8 * X.size
        np.testing.assert_array_equal(salsa.load(tmp_path / "m").predict(X), model.predict(X))


class TestRefused:
    @pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
    def test_truncated_files_are_refused(self, path, share):
        blob = path.read_bytes()
        path.write_bytes(blob[: int(share * len(blob))])
        with pytest.raises(ValueError, match=r"m\.salsa is damaged or not a salsa model file .*: copy it again"):
            salsa.load(path)

    @pytest.mark.parametrize("name", ["t.csv", "t.tsv.gz", "t.parquet"])
    def test_tables_are_named_as_such(self, tmp_path, name):
        (tmp_path / name).write_text("a,b\n1,2\n")
        with pytest.raises(ValueError, match=rf"{name} is damaged .*: it is named like a table; give the file that"):
            salsa.load(tmp_path / name)

    def test_absent_files_and_folders_raise_errors_of_the_system(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="absent"):
            salsa.load(tmp_path / "absent")
        with pytest.raises(IsADirectoryError, match=tmp_path.name):
            salsa.load(tmp_path)

    @pytest.mark.parametrize(("version", "advice"), [(VERSION + 1, "update salsa-learn"), (1, "fit the model again")])
    def test_unknown_format_versions_are_refused_with_advice(self, path, version, advice):
        rewrite(path, with_header(version=version))
        with pytest.raises(ValueError, match=rf"m\.salsa cannot be read: .*{advice}"):
            salsa.load(path)

    def test_foreign_files_are_refused(self, path):
        rewrite(path, lambda members: members.pop("header.json"))
        with pytest.raises(ValueError, match="not a salsa model file"):
            salsa.load(path)
        path.write_bytes(zipped({"header.json": b"[]"}))
        with pytest.raises(ValueError, match="not a salsa model file"):
            salsa.load(path)

    def test_a_changed_array_is_refused(self, path):
        def change(members):
            members["coef.npy"] = members["offset.npy"]

        rewrite(path, change)
        with pytest.raises(ValueError, match="'coef' does not match its checksum"):
            salsa.load(path)

    def test_a_changed_header_is_refused(self, path):
        members = unzipped(path.read_bytes())
        comment = digest(members["header.json"])
        with_header(flat=False)(members)
        path.write_bytes(zipped(members, comment))
        with pytest.raises(ValueError, match="header does not match its checksum"):
            salsa.load(path)

    @pytest.mark.parametrize(
        "name",
        ["../evil.npy", "/etc/evil.npy", "C:\\evil.npy", "a/b.npy", "evil.npy\0x", "evil.py", "EVIL.npy", "é.npy"],
    )
    @pytest.mark.parametrize("listed", [False, True])
    def test_names_that_no_model_has_are_refused(self, path, name, listed):
        members = {**unzipped(path.read_bytes()), name: npy(np.ones(3))}
        info = zipfile.ZipInfo("x")
        info.filename = name  # as it is: the constructor tidies it up
        members = consistent(members) if listed else members
        path.write_bytes(zipped([(info if key == name else key, blob) for key, blob in members.items()]))
        with pytest.raises(ValueError, match=r"m\.salsa .* is not one of a model"):
            salsa.load(path)
        assert [p.name for p in path.parent.iterdir()] == ["m.salsa"]

    def test_unexpected_and_repeated_members_are_refused(self, path):
        members = unzipped(path.read_bytes())
        path.write_bytes(zipped({**members, "evil.npy": b""}))
        with pytest.raises(ValueError, match="contents"):
            salsa.load(path)
        path.write_bytes(zipped([*members.items(), ("coef.npy", members["coef.npy"])]))
        with pytest.raises(ValueError, match="two of one name"):
            salsa.load(path)
        path.write_bytes(zipped(consistent({**members, **{f"{'e' * k}.npy": b"" for k in range(1, 60)}})))
        with pytest.raises(ValueError, match="more than 64"):
            salsa.load(path)

    def test_symbolic_links_are_refused(self, path):
        link = zipfile.ZipInfo("coef.npy")
        link.external_attr = 0o120777 << 16
        members = unzipped(path.read_bytes())
        path.write_bytes(zipped([(link if name == "coef.npy" else name, blob) for name, blob in members.items()]))
        with pytest.raises(ValueError, match="is not one of a model"):
            salsa.load(path)

    @pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    def test_compressions_other_than_deflate_are_refused(self, path, method):
        path.write_bytes(zipped(unzipped(path.read_bytes()), method=method))
        with pytest.raises(ValueError, match="other means than deflate"):
            salsa.load(path)

    def test_encrypted_members_are_refused(self, path):
        path.write_bytes(patched(path.read_bytes(), "coef.npy", flags=1))
        with pytest.raises(ValueError, match="is encrypted"):
            salsa.load(path)

    def test_overlapping_members_are_refused(self, path):
        blob = path.read_bytes()
        with zipfile.ZipFile(path) as file:
            offset = file.getinfo("coef.npy").header_offset
        path.write_bytes(patched(blob, "offset.npy", offset=offset))
        with pytest.raises(ValueError, match="its members overlap"):
            salsa.load(path)

    @pytest.mark.parametrize(
        "text",
        [
            b"[" * 100_000,
            b'{"a":' * 100_000,
            b'{"format": "salsa-model", "version": NaN}',
            b'{"format": "salsa-model", "version": 1e999}',
            b'{"format": "salsa-model", "version": ' + b"9" * 100_000 + b"}",
            b'{"format": "salsa-model", "version": true}',
            b'{"format": "salsa-model", "version": 3, "checksums": []}',
            b"\xff\xfe\x00",
            b"",
        ],
    )
    def test_headers_that_are_invalid_json_are_refused(self, path, text):
        rewrite(path, lambda members: members.update({"header.json": text}))
        with pytest.raises(ValueError, match=r"m\.salsa "):
            salsa.load(path)

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda h: h["search"].update(alpha=np.nan), "the number NaN"),
            (lambda h: h["search"].update(alpha=np.inf), "the number Infinity"),
            (lambda h: h["search"].update(alpha=10**309), "the number 1000"),
            (lambda h: h["search"].update(alpha=-1.0), "alpha -1.0"),
            (lambda h: h["search"].update(alpha=True), "misstates 'alpha'"),
            (lambda h: h["search"].update(order="2"), "misstates 'order'"),
            (lambda h: h["search"].update(order=True), "misstates 'order'"),
            (lambda h: h["search"].update(order=3), "among the orders"),
            (lambda h: h["search"].update(results=h["search"]["results"][:1] * 2), "among the orders"),
            (lambda h: h["search"].update(results=[], order=5), "not of the order that was found"),
            (lambda h: h["search"]["results"][0][1].pop(), "one error for each alpha"),
            (lambda h: h["search"]["results"][0].pop(), "misstates 'results'"),
            (lambda h: h["search"].update(contenders=[["learned"]]), "misstates 'contenders'"),
            (lambda h: h["search"].update(notes="a note"), "misstates 'notes'"),
            (lambda h: h["columns"]["names"].pop(), "5 names"),
            (lambda h: h["columns"]["levels"].pop(), "5 levels"),
            (lambda h: h["columns"]["ordered"].pop(), "5 orders"),
            (lambda h: h["columns"]["ordered"].__setitem__(0, 1), "misstates 'ordered'"),
            (lambda h: h["columns"]["levels"].__setitem__(0, [None]), "levels of categories"),
            (lambda h: h["columns"]["levels"].__setitem__(0, "ab"), "misstates 'levels'"),
            (lambda h: h.update(columns={k: v * 2 for k, v in h["columns"].items()}), "not of one number"),
            (lambda h: h.update(columns=None), "misstates 'names'"),
            (lambda h: h.update(feature_names=["a"]), "not of one number"),
            (lambda h: h.update(feature_names=[1] * 6), "misstates 'feature_names'"),
            (lambda h: h.update(flat=1), "misstates 'flat'"),
            (lambda h: h.update(kernel={"base": 5}), "misstates 'base'"),
            (lambda h: h.update(kernel={"base": ["gaussian"] * 5 + [[]]}), "misstates unhashable"),
            (lambda h: h.update(kernel={"base": "evil"}), "unknown base kernel"),
            (lambda h: h.update(parameters=[]), "misstates 'parameters'"),
            (lambda h: h.pop("search"), "misstates 'search'"),
        ],
    )
    def test_headers_that_contradict_themselves_or_the_arrays_are_refused(self, path, change, reason):
        members = unzipped(path.read_bytes())
        header = json.loads(members["header.json"])
        change(header)
        path.write_bytes(zipped({**members, "header.json": json.dumps(header).encode()}))
        with pytest.raises(ValueError, match=rf"m\.salsa is damaged .*{reason}"):
            salsa.load(path)

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda k: k.update(terms=[]), "do not fit its 0 terms"),
            (lambda k: k.update(terms={}), "misstates 'terms'"),
            (lambda k: k.update(terms=k["terms"] + k["terms"][:1]), "do not fit its 4 terms"),
            (lambda k: k["terms"].pop(), "do not fit its 2 terms"),
            (lambda k: k["terms"].__setitem__(0, "matern52"), "misstates 'terms'"),
            (lambda k: k["terms"][1].update(order=0), "do not fit its 3 terms"),
            (lambda k: k["terms"][1].update(order=10**300), "do not fit its 3 terms"),
            (lambda k: (k["terms"][0].update(order=4), k["terms"][1].update(order=-1)), "do not fit its 3 terms"),
            (lambda k: k["terms"][1].update(order=True), "misstates 'order'"),
            (lambda k: k["terms"][1].pop("base"), "misstates 'base'"),
            (lambda k: k["terms"][1].update(base="evil"), "unknown base kernel"),
            (lambda k: k["terms"][1]["base"].pop(), "base has 5 names for 6 features"),
            (lambda k: k["terms"][1]["base"].__setitem__(3, "equality"), "feature 3 is a category"),
            (lambda k: (k.pop("terms"), k.update(base="gaussian")), "one-dimensional"),
        ],
    )
    def test_sums_that_contradict_themselves_are_refused(self, sum_path, change, reason):
        members = unzipped(sum_path.read_bytes())
        header = json.loads(members["header.json"])
        change(header["kernel"])
        sum_path.write_bytes(zipped({**members, "header.json": json.dumps(header).encode()}))
        with pytest.raises(ValueError, match=rf"s\.salsa is damaged .*({reason})"):
            salsa.load(sum_path)

    @pytest.mark.parametrize(
        ("name", "array"),
        [
            ("bandwidth", np.ones((2, 6))),
            ("bandwidth", np.ones((3, 5))),
            ("bandwidth", np.ones(6)),
            ("bandwidth", np.zeros((3, 6))),
            ("relevance", np.ones((3, 7))),
            ("relevance", np.ones(18)),
            ("relevance", -np.ones((3, 6))),
            ("relevance", np.full((3, 6), 1e308)),
            ("order_weights", np.ones(12)),
            ("order_weights", np.ones((1, 11))),
            ("order_weights", np.full(11, np.nan)),
            ("distribution_sizes", np.ones(3)),
        ],
    )
    def test_arrays_of_sums_that_do_not_match_are_refused(self, sum_path, name, array):
        rewrite(sum_path, with_array(name, array))
        with pytest.raises(ValueError, match=r"s\.salsa "):
            salsa.load(sum_path)

    def test_more_outputs_than_the_target_had_are_refused(self, tmp_path):
        X, y = additive_truth(n=20)
        SalsaRegressor(order=1, alpha=1.0).fit(X, np.column_stack([y, y])).save(tmp_path / "m")
        rewrite(tmp_path / "m", with_header(flat=True))
        with pytest.raises(ValueError, match="more outputs than it says"):
            salsa.load(tmp_path / "m")

    def test_too_many_orders_are_refused_at_once(self):
        D = 20_000
        arrays = {name: np.ones(D) for name in ("bandwidth", "relevance", "order_weights")}
        arrays |= {"anchors": np.ones((1, D)), "coef": np.ones((1, 1)), "offset": np.ones(1)}
        with pytest.raises(ValueError, match="20000 order weights, more than 1030"):
            expansion_from({"base": "gaussian"}, arrays)

    def test_missing_entries_are_refused(self, path):
        rewrite(path, with_header(search={}))
        with pytest.raises(ValueError, match=r"m\.salsa .*lacks or misstates"):
            salsa.load(path)

    def test_unknown_parameters_are_refused(self, path):
        rewrite(path, with_header(parameters={"evil": 1}))
        with pytest.raises(ValueError, match=r"m\.salsa .*lacks or misstates .*evil"):
            salsa.load(path)

    def test_parameters_that_predictions_cannot_use_are_refused(self, model, path):
        rewrite(path, with_header(parameters={"n_jobs": "many"}))
        with pytest.raises(ValueError, match=r"m\.salsa .*n_jobs='many'"):
            salsa.load(path)
        with pytest.raises(ValueError, match="memory_limit='much'"):
            model.set_params(memory_limit="much").save(path)

    @pytest.mark.parametrize(
        ("name", "array"),
        [
            ("coef", np.ones((3, 1))),
            ("coef", np.full((60, 1), 1e308)),
            ("offset", np.array([[1.0]])),
            ("offset", np.array([np.nan])),
            ("anchors", np.full((60, 6), np.inf)),
            ("anchors", np.resize([1e300, -1e300], (60, 1)) * np.ones(6)),
            ("order_weights", np.zeros(2000)),
            ("relevance", -np.ones(6)),
            ("bandwidth", np.ones(7)),
            ("distribution_sizes", np.full(6, np.inf)),
            ("distribution_sizes", np.array([59.5, 60.5, 60.0, 60.0, 60.0, 60.0])),
            ("distribution_weights", np.ones(6 * 60)),
            ("marginal_sizes", np.ones(6)),
            ("weight", np.zeros(60)),
        ],
    )
    def test_arrays_that_do_not_match_are_refused(self, path, name, array):
        rewrite(path, with_array(name, array))
        with pytest.raises(ValueError, match=r"m\.salsa "):
            salsa.load(path)

    @pytest.mark.parametrize(
        "array",
        [
            npy(np.ones((60, 1), dtype=np.float32)),
            npy(np.ones((60, 1), dtype=">f8")),
            npy(np.ones((60, 1), dtype=np.int64)),
            npy(np.asfortranarray(np.ones((60, 2)))),
            npy(np.ones((60, 1, 1))),
            npy(np.ones((0, 1))),
            npy(np.array(1.0)),
            npy(np.ones((60, 1))).replace(b"(60, 1)", b"(61, 1)"),
            npy(np.ones((60, 1))).replace(b"(60, 1), }   ", b"(60, 10**9),"),
            npy(np.ones((60, 1))).replace(b"(60, 1), }           ", b"(1000000000000, 1), }"),
            npy(np.ones((60, 1))).replace(b"<f8", b"|O8"),
            npy(np.ones((60, 1))).replace(b"\x01\x00v\x00", b"\x01\x00w\x00"),
            b"",
        ],
    )
    def test_arrays_that_are_not_plain_tables_are_refused(self, path, array):
        rewrite(path, with_array("coef", array))
        with pytest.raises(ValueError, match=r"m\.salsa .*'coef'"):
            salsa.load(path)

    def test_codes_without_levels_are_refused(self, tmp_path):
        X = pd.DataFrame({"level": list("abab"), "x": np.arange(4.0)})
        SalsaRegressor(order=1, alpha=1.0).fit(X, np.arange(4)).save(tmp_path / "m.salsa")
        rewrite(tmp_path / "m.salsa", with_array("anchors", np.full((4, 2), 2.0)))
        with pytest.raises(ValueError, match=r"'level' has codes other than those of its 2 levels"):
            salsa.load(tmp_path / "m.salsa")


def patched(blob, name, **fields):
    """Return a zip with other numbers in the directory's entry for one member."""
    blob, start = bytearray(blob), blob.rindex(b"PK\x05\x06")
    places = {"flags": (8, "<H"), "size": (24, "<L"), "offset": (42, "<L")}
    entry = next(
        m.start() for m in re.finditer(b"PK\x01\x02", blob[:start]) if blob[m.start() + 46 :].startswith(name.encode())
    )
    for field, value in fields.items():
        offset, kind = places[field]
        struct.pack_into(kind, blob, entry + offset, value)
    return bytes(blob)


class TestBombs:
    """Files that would unpack to far more than they hold are refused before memory is taken."""

    @pytest.fixture
    def peak(self, path):
        """Return a function that measures the peak megabytes of loading a file, which must be refused."""

        def measure(blob, message):
            path.write_bytes(blob)
            tracemalloc.start()
            try:
                with pytest.raises(ValueError, match=message):
                    salsa.load(path)
                return tracemalloc.get_traced_memory()[1] / 1e6
            finally:
                tracemalloc.stop()

        return measure

    @staticmethod
    def zeros(megabytes):
        return npy(np.zeros(megabytes * 2**17))

    def test_bombs_that_state_their_size_are_refused(self, path, peak):
        bomb = zipped(consistent({**unzipped(path.read_bytes()), "coef.npy": self.zeros(300)}))
        assert len(bomb) < 500_000
        assert peak(bomb, r"m\.salsa cannot be read: .*would unpack to .*zip -0") < 5

    def test_bombs_that_understate_their_size_are_refused(self, path, peak):
        bomb = zipped(consistent({**unzipped(path.read_bytes()), "coef.npy": self.zeros(300)}))
        assert peak(patched(bomb, "coef.npy", size=1000), r"m\.salsa is damaged .*CRC") < 5

    def test_bombs_in_the_header_are_refused(self, path, peak):
        members = unzipped(path.read_bytes())
        members["header.json"] = members["header.json"][:-1] + b', "x": [' + b"[]," * 2**21 + b"[]]}"
        assert peak(zipped(members), "would unpack to") < 5

    def test_bombs_of_many_members_are_refused(self, path, peak):
        bomb = zipped([(f"{k:x}", b"") for k in range(20_000)], b"")
        assert peak(bomb, "more than 64") < 16 * len(bomb) / 1e6

    def test_files_within_the_limit_take_at_most_twice_their_unpacked_size(self, path, peak):
        bomb = zipped(consistent({**unzipped(path.read_bytes()), "coef.npy": self.zeros(100)}))
        assert peak(bomb, "do not fit") < 2.1 * 105

    def test_files_without_compression_may_have_any_size(self, path, monkeypatch):
        members = unzipped(path.read_bytes())
        monkeypatch.setattr(archive, "UNPACKED", 0)
        monkeypatch.setattr(archive, "RATIO", 1)
        path.write_bytes(zipped(members, method=zipfile.ZIP_STORED))
        salsa.load(path)
        path.write_bytes(zipped(members))
        with pytest.raises(ValueError, match="without compression"):
            salsa.load(path)


class TestWriting:
    def test_a_failed_save_keeps_the_old_file_and_leaves_no_other(self, path, monkeypatch):
        before = path.read_bytes()
        monkeypatch.setattr(zipfile.ZipFile, "writestr", lambda *a, **k: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            SalsaRegressor(order=1, alpha=1.0).fit(*additive_truth(n=20)).save(path)
        assert path.read_bytes() == before
        assert [p.name for p in path.parent.iterdir()] == ["m.salsa"]

    def test_a_file_is_synchronised_before_it_is_renamed(self, model, path, monkeypatch):
        """The order of the system calls decides which file survives a power cut."""
        calls = []
        for name in ("fsync", "replace"):
            call = getattr(archive.os, name)
            monkeypatch.setattr(archive.os, name, lambda *a, name=name, call=call: (calls.append(name), call(*a)))
        model.save(path)
        assert calls == ["fsync", "replace", "fsync"]

    def test_save_needs_an_existing_folder(self, model, tmp_path):
        with pytest.raises(FileNotFoundError):
            model.save(tmp_path / "nowhere" / "m.salsa")

    def test_save_replaces_only_files(self, model, tmp_path):
        (tmp_path / "folder").mkdir()
        with pytest.raises(ValueError, match="not a file"):
            model.save(tmp_path / "folder")
        assert [p.name for p in tmp_path.iterdir()] == ["folder"]

    def test_save_follows_symbolic_links(self, model, tmp_path):
        (tmp_path / "folder").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "folder" / "m.salsa")
        model.save(tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        assert not (tmp_path / "folder" / "m.salsa").is_symlink()
        salsa.load(tmp_path / "link")

    def test_names_of_255_characters_can_be_saved(self, model, tmp_path):
        model.save(tmp_path / ("m" * 255))
        salsa.load(tmp_path / ("m" * 255))

    def test_saved_files_have_ordinary_permissions(self, path):
        path.with_name("other").touch()
        assert path.stat().st_mode == path.with_name("other").stat().st_mode

    def test_objects_are_never_pickled(self, tmp_path):
        with pytest.raises(TypeError):
            write_archive(tmp_path / "m", {}, {"a": np.array([object()])})
        assert not list(tmp_path.iterdir())


# Mutations: each takes a random generator and the bytes of a file, and returns the bytes of another.


def flip_bits(rng, blob):
    blob = bytearray(blob)
    for place in rng.integers(len(blob), size=rng.integers(1, 4)):
        blob[place] ^= 1 << int(rng.integers(8))
    return bytes(blob)


def change_bytes(rng, blob):
    start, new = int(rng.integers(len(blob))), rng.bytes(int(rng.integers(1, 9)))
    return blob[:start] + new + blob[start + len(new) :]


def change_bytes_of_the_directory(rng, blob):
    """Change the part of a zip with names, places and sizes."""
    start = blob.index(b"PK\x01\x02")
    return blob[:start] + change_bytes(rng, flip_bits(rng, blob[start:]))


def truncate(rng, blob):
    return blob[: int(rng.integers(len(blob)))]


def extend(rng, blob):
    more = rng.bytes(int(rng.integers(1, 100)))
    return blob + more if rng.random() < 0.5 else more + blob


def move_pieces(rng, blob):
    a, b, c = sorted(map(int, rng.integers(len(blob), size=3)))
    return [blob[:a] + blob[b:c] + blob[a:b] + blob[c:], blob[:a] + blob[b:], blob[:b] + blob[a:]][rng.integers(3)]


def swap_members(rng, blob):
    members = unzipped(blob)
    a, b = rng.choice(list(members), 2, replace=False)
    members[a], members[b] = members[b], members[a]
    return zipped(members)


def remove_or_repeat_members(rng, blob):
    members = list(unzipped(blob).items())
    k = int(rng.integers(len(members)))
    return zipped(members[:k] + members[k + 1 :] if rng.random() < 0.5 else [*members, members[k]])


def rename_members(rng, blob):
    members = list(unzipped(blob).items())
    k = int(rng.integers(len(members)))
    name, content = members[k]
    tricks = (f"../{name}", f"/{name}", f"C:\\{name}", f"{name}/", f"./{name}", name.upper(), f"{name}\0", "x.npy", "")
    info = zipfile.ZipInfo("x")
    info.filename = tricks[rng.integers(len(tricks))]
    return zipped([*members[:k], (info, content), *members[k + 1 :]])


def remove_arrays(rng, blob):
    members = unzipped(blob)
    del members[rng.choice([name for name in members if name != "header.json"])]
    return zipped(consistent(members))


def change_npy_headers(rng, blob):
    members = unzipped(blob)
    name = rng.choice([name for name in members if name != "header.json"])
    shape = tuple(rng.choice([0, 1, 2, 3, 80, 10**6, 10**12, 2**63], size=rng.integers(4)).tolist())
    text = {"descr": str(rng.choice(["<f8", "<f8", ">f8", "<f4", "|O", "<i8", "|V8", "<U9"]))}
    text = str({**text, "fortran_order": bool(rng.random() < 0.3), "shape": shape})[:-1] + ", }"
    text = text.ljust(117).encode() + b"\n"
    members[name] = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + members[name][128:]
    return zipped(consistent(members))


NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-320, 1e-160, 1e160, 1e308, -1e308, np.inf, -np.inf, np.nan]


def change_arrays(rng, blob):
    """Numbers, or the shape, of one array."""
    members = unzipped(blob)
    name = rng.choice([name for name in members if name != "header.json"])
    array = np.load(io.BytesIO(members[name]))
    if rng.random() < 0.7:
        array.ravel()[rng.integers(array.size, size=rng.integers(1, 4))] = rng.choice(NUMBERS)
    else:
        others = [array[:-1], np.concatenate([array, array[:1]]), array.ravel(), array[None].reshape(1, -1), array * 0]
        array = np.ascontiguousarray(others[rng.integers(len(others))])
    members[name] = npy(array)
    return zipped(consistent(members))


VALUES = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    0.5,
    -0.5,
    1e308,
    10**300,
    "",
    "x",
    "gaussian",
    [],
    {},
    [[]],
    [0],
    [None],
    {"a": 1},
]


def change_header(rng, blob):
    """One value, or two, of the header, wherever it is: another, none, or one more."""
    members = unzipped(blob)
    header = json.loads(members["header.json"])
    for _ in range(rng.integers(1, 3)):
        change_within(rng, header)
    return zipped({**members, "header.json": json.dumps(header).encode()})


def change_within(rng, header):
    place, key = None, None
    inner = header
    while isinstance(inner, (dict, list)) and inner and (place is None or rng.random() < 0.85):
        place, key = (
            inner,
            (list(inner)[rng.integers(len(inner))] if isinstance(inner, dict) else int(rng.integers(len(inner)))),
        )
        inner = place[key]
    kind = rng.integers(8)
    if kind == 0:
        del place[key]
    elif kind == 1 and isinstance(place, list):
        place.insert(key, copy.deepcopy(place[key]))
    elif kind == 2 and isinstance(place, dict):
        place["x"] = place.pop(key)
    else:
        place[key] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])


def change_header_text(rng, blob):
    """Write JSON that Python's values cannot express."""
    members = unzipped(blob)
    text = members["header.json"].decode()
    numbers = list(re.finditer(r"(?<=[ \[])-?\d[\d.e+-]*(?=[,\]}])", text))
    found = numbers[rng.integers(len(numbers))]
    new = [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "-1e999",
        "9" * 5000,
        "[" * 3000 + "]" * 3000,
        '"\\ud800"',
        "01",
        "'",
    ]
    text = text[: found.start()] + new[rng.integers(len(new))] + text[found.end() :]
    return zipped({**members, "header.json": text.encode()})


DAMAGE = {
    flip_bits: 800,
    change_bytes: 700,
    change_bytes_of_the_directory: 500,
    truncate: 400,
    extend: 200,
    move_pieces: 300,
}
TRICKS = {swap_members: 150, remove_or_repeat_members: 150, rename_members: 200}
REWRITTEN = {
    remove_arrays: 50,
    change_npy_headers: 300,
    change_arrays: 500,
    change_header: 650,
    change_header_text: 100,
}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Return a model with all that a file of one term can hold."""
    return saved_model(tmp_path_factory.mktemp("mutations"))


@pytest.fixture(scope="module")
def original_sum(tmp_path_factory):
    """Return a model whose kernel is a sum of three terms."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_kernel(monkeypatch)
        found = saved_model(tmp_path_factory.mktemp("mutations"))
    assert len(salsa.load(found[0]).expansion_.kernel.terms) == 3
    return found


def saved_model(folder):
    """Save a model: return path, bytes, rows with gaps and unseen values, and predictions."""
    rng = np.random.default_rng(0)
    X, y = additive_truth(n=80, D=3)
    X = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        text=rng.choice(["u", "v", "w"], 80), rank=pd.Categorical(rng.choice([1, 2, 3], 80), ordered=True)
    )
    X.loc[::7, "b"] = np.nan
    model = SalsaRegressor(random_state=0, order=[1, 2], n_jobs=1).fit(X, y, rng.uniform(0.5, 2.0, 80))
    path = folder / "m.salsa"
    model.save(path)
    assert {"weight.npy", "marginal_sizes.npy", "distribution_sizes.npy"} <= set(unzipped(path.read_bytes()))
    rows = rng.uniform(-1, 1, (20, 5)).round(1)
    rows[rng.random((20, 5)) < 0.2] = np.nan
    rows[:, 4] = rng.integers(0, 5, 20)
    return path, path.read_bytes(), rows, predictions(model, rows)


def predictions(model, rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unseen values, and rows without names
        return model.predict(rows)


class TestMutations:
    """Each of 5000 damaged files is refused with a message that names it, or gives a model that works."""

    def outcome(self, path, blob, rows):
        """Return the model's predictions; None if the file is refused."""
        path.write_bytes(blob)
        try:
            model = salsa.load(path)
        except ValueError as error:
            if "m.salsa " not in str(error):
                raise
            return None
        assert len(model.search_.table) == len(model.search_.results)
        assert len(model.search_.race) == len(model.search_.contenders)
        assert len(model.search_.components) == len(model.expansion_.kernel.terms)
        return predictions(model, rows)

    def test_the_original_file_holds_a_race(self, original):
        assert salsa.load(original[0]).search_.contenders

    def test_there_are_5000_mutations(self):
        assert sum((DAMAGE | TRICKS | REWRITTEN).values()) == 5000

    @pytest.mark.parametrize("mutation", DAMAGE | TRICKS, ids=lambda f: f.__name__)
    def test_damage_is_refused_or_harmless(self, original, mutation):
        path, blob, rows, expected = original
        rng, refused, count = np.random.default_rng(1), 0, (DAMAGE | TRICKS)[mutation]
        for _ in range(count):
            found = self.outcome(path, mutation(rng, blob), rows)
            refused += found is None
            if found is not None:
                np.testing.assert_array_equal(found, expected)
        assert refused > 0

    @pytest.mark.parametrize("mutation", REWRITTEN, ids=lambda f: f.__name__)
    @pytest.mark.parametrize("kernel", ["original", "original_sum"])
    def test_files_rewritten_with_right_checksums_are_refused_or_work(self, kernel, mutation, request):
        path, blob, rows, expected = request.getfixturevalue(kernel)
        rng, refused, count = np.random.default_rng(2), 0, REWRITTEN[mutation]
        for _ in range(count):
            found = self.outcome(path, mutation(rng, blob), rows)
            refused += found is None
            if found is not None:
                assert found.size == expected.size
                assert np.isfinite(found).all()
        assert refused > 0


KILLS = """
import os, signal, sys, time
from pathlib import Path
import numpy as np
import salsa

folder, kills = Path(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (300, 8))
models = [salsa.SalsaRegressor(order=1, alpha=1.0, relevance="equal").fit(X, y) for y in (X[:, 0], X[:, 1])]
expected = [model.predict(X[:5]) for model in models]
path = folder / "m.salsa"
models[0].save(path)
seen, strays = set(), 0
for kill in range(kills):
    begun, begin = os.pipe()
    child = os.fork()
    if child == 0:
        while True:
            for model in models:
                model.save(path)
                os.write(begin, b".")
    os.read(begun, 1)
    time.sleep(rng.uniform(0.005, 0.05))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(begun)
    os.close(begin)
    found = salsa.load(path).predict(X[:5])
    which = [k for k in (0, 1) if np.array_equal(found, expected[k])]
    assert which, "neither of the two models"
    seen.add(which[0])
    for stray in set(folder.iterdir()) - {path}:
        assert stray.name.startswith(".salsa-"), stray
        strays += 1
        stray.unlink()
print(sorted(seen), strays)
"""


class TestKilled:
    def test_kill_9_leaves_the_old_model_or_the_new_one(self, tmp_path):
        """A process that saves two models over each other without pause is killed 100 times."""
        done = subprocess.run([sys.executable, "-c", KILLS, str(tmp_path), "100"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        seen, strays = done.stdout.rsplit(maxsplit=1)
        assert seen == "[0, 1]"
        assert int(strays) > 0  # or the kills did not come while files were being written


class TestFormatsOfNumbers:
    """Models of the command line hold the format in which a file wrote its numbers."""

    def test_formats_are_read_back(self, path):
        rewrite(path, with_header(formats={"a": {"decimal": ",", "thousands": ".", "before": "", "after": "kg"}}))
        model = salsa.load(path)
        assert fitted_of(model).formats == {"a": NumberFormat(",", ".", "", "kg")}
        model.save(path)
        assert fitted_of(salsa.load(path)).formats == {"a": NumberFormat(",", ".", "", "kg")}

    @pytest.mark.parametrize(
        "formats",
        [
            [],
            {"a": 5},
            {"a": {"decimal": ","}},
            {"a": {"decimal": 5, "thousands": "", "before": "", "after": ""}},
            {"a": {"decimal": "x", "thousands": "", "before": "", "after": ""}},
            {"a": {"decimal": ".", "thousands": ".", "before": "", "after": ""}},
        ],
    )
    def test_invalid_formats_are_refused(self, path, formats):
        rewrite(path, with_header(formats=formats))
        with pytest.raises(ValueError, match=r"formats|decimal|thousands|marks"):
            salsa.load(path)
