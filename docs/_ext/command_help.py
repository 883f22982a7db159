"""`{command} fit`: usage, text and options of a salsa command, from the command line itself."""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.main import get_command

from salsa.cli import app


class Command(SphinxDirective):
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        command: Any = get_command(app)
        for name in self.arguments[0].split():
            command = command.commands[name]
        given = [p for p in command.params if p.param_type_name == "argument"]
        options = [p for p in command.params if p.param_type_name == "option"]
        usage = " ".join(["salsa", self.arguments[0], *(_place(p) for p in given), "[options]"])
        text = re.sub(r"\[/?bold\]", "`", command.help)
        table = [
            "| option | meaning |",
            "|---|---|",
            *(f"| `{_name(p)}` | {_meaning(p)} |" for p in [*given, *options]),
        ]
        return self.parse_text_to_nodes("\n".join(["```text", usage, "```", "", text, "", *table]))


def _place(argument: Any) -> str:
    return argument.metavar if argument.required else f"[{argument.metavar}]"


def _name(parameter: Any) -> str:
    names = [] if parameter.param_type_name == "argument" else parameter.opts[:1]
    return " ".join([*names, *filter(None, [parameter.metavar])])


def _meaning(parameter: Any) -> str:
    if parameter.required:
        return f"{parameter.help} Needed."
    if parameter.default is None or parameter.default is False:
        return parameter.help
    return f"{parameter.help} Default: `{parameter.default}`."


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("command", Command)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
