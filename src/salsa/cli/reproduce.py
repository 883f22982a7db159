"""salsa reproduce: the group of commands that repeat the experiments of the paper."""

import typer

from salsa.cli.figure1 import add_figures
from salsa.cli.show import PlainCommand, PlainGroup
from salsa.cli.table1 import table1

app = typer.Typer(cls=PlainGroup)
app.command(cls=PlainCommand)(table1)
add_figures(app)


@app.callback(invoke_without_command=True)
def reproduce(context: typer.Context) -> None:
    """Repeat the experiments of the paper, for example with salsa reproduce table1 or fig1a."""
    if context.invoked_subcommand is None:
        raise ValueError("reproduce needs an experiment: salsa reproduce table1, one of fig1a to fig1f, or figures")
