"""How `make docs` builds the site: nothing is fetched, and a warning is an error."""

import sys
from pathlib import Path

import matplotlib as mpl

import salsa

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
mpl.use("agg")

project = "salsa"
author = "The salsa developers"
version = release = salsa.__version__
html_title = "salsa"
html_show_copyright = False

extensions = [
    "command_help",
    "mathml",
    "myst_parser",
    "numpydoc",
    "offline",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_ext", "_templates", "results"]
root_doc = "index"
nitpicky = True

myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 4
html_math_renderer = "mathml"

autosummary_generate = True
autodoc_typehints = "none"  # docstrings say what may be given, in words
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
autodoc_default_options = {  # scikit-learn makes them, for its metadata routing
    "exclude-members": "set_fit_request, set_predict_request, set_score_request"
}
numpydoc_show_class_members = False  # the template of a class lists them

copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"^(?!.*dask_scheduler)",  # which needs a cluster
    "abort_on_example_error": True,
    "show_memory": False,
    "write_computation_times": False,  # its page would load a script from elsewhere
    "show_signature": False,
    "download_all_examples": False,
    "within_subsection_order": "reading_order.ReadingOrder",
}

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "salsa"},
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
