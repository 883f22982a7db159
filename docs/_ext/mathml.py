"""Formulas as MathML, which browsers draw by themselves: no script, no font, no network. Unknown TeX is an error."""

import re

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def tex(node: nodes.Element) -> str:
    return re.sub(r"\\dots\b", r"\\ldots", node.astext())  # the one of amsmath that everybody uses


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(tex2mathml(tex(node)))
    raise nodes.SkipNode


def visit_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula">{tex2mathml(tex(node), as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
