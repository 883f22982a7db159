"""The command line. Commands print results to standard output and everything else to standard error."""

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

try:
    import typer
except ImportError:
    print("salsa: the command line needs typer: pip install typer rich pyarrow", file=sys.stderr)
    raise SystemExit(2) from None

from salsa.cli import check, compare, demo, explain, fit, info, predict, reproduce
from salsa.cli.completion import serve_named_shell
from salsa.cli.show import PlainCommand, PlainGroup

UsageError: Any = typer.BadParameter.__base__  # the class of click, or of typer's own copy of click
INTERRUPTED = 130
EXIT_CODES = (
    "Exit codes: 0 success; 1 the output pipe was closed; 2 an error, explained in one line on standard error; "
    f"{INTERRUPTED} interrupted. Files are written completely or not at all."
)

app = typer.Typer(
    cls=PlainGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=EXIT_CODES,
)
for command in (check.check, fit.fit, predict.predict, explain.explain, compare.compare, info.info, demo.demo):
    app.command(cls=PlainCommand)(command)
app.add_typer(reproduce.app, name="reproduce")


def main() -> None:
    """Run the command line. Errors that a user can fix give one line on standard error and exit code 2."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        with _plain_warnings():
            status = 0 if serve_named_shell(sys.argv[1:]) else app(standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the flush at exit must not fail either
        sys.exit(1)
    except UsageError as error:
        _fail(error.format_message())
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
    except (ValueError, MemoryError) as error:
        _fail(str(error) or "out of memory")
    except RuntimeError as error:
        if not isinstance(error.__cause__, KeyboardInterrupt):  # before Python 3.12: while a class was created
            raise
        status = INTERRUPTED
    if status == INTERRUPTED:
        _fail("interrupted", INTERRUPTED)
    sys.exit(status)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print each warning of the library once, as one line on standard error."""
    with warnings.catch_warnings():
        warnings.simplefilter("once", UserWarning)
        warnings.showwarning = lambda message, *_, **__: print(f"salsa: {message}", file=sys.stderr)
        yield


def _interrupt(*_: object) -> NoReturn:
    """Raise an instance: before 3.12 Python's handler raises the class, which pandas' reader takes for a bad file."""
    raise KeyboardInterrupt


def _fail(message: str, status: int = 2) -> NoReturn:
    print("salsa:", " ".join(message.split()), file=sys.stderr)
    sys.exit(status)


def _show_version(wanted: bool) -> None:
    if wanted:
        from salsa import __version__

        print(f"salsa {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Regression on tables: accurate, smooth and readable.

    Start with [bold]salsa demo[/bold]; [bold]salsa fit --help[/bold] explains how to use a table of your own.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())
