"""Configuration of the documentation. ``make docs`` builds it with warnings as errors."""

from harmonicalign import __version__

project = "harmonicalign"
author = "The harmonicalign developers"
copyright = "The harmonicalign developers"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    # Brings MathJax and its fonts into the pages, so that formulas are there without a network.
    "sphinx-mathjax-offline",
    "sphinx.ext.napoleon",
    "sphinx_design",
]
exclude_patterns = ["_build"]
# Otherwise pages with notebooks fetch a script for widgets, of which there are none.
nb_ipywidgets_js = {}
# Docstrings name things in single backticks; what is no object of ours stays as it is.
default_role = "py:obj"

html_theme = "furo"
html_title = f"harmonicalign {version}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Pages with code run whenever the documentation is built, and an error in them is one of the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = 300
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
# Names of types as they stand in the signatures; `harmonicalign._typing` says what they are.
autodoc_type_aliases = {"Array": "numpy.ndarray"} | {
    name: name
    for name in ("ArrayLike", "Datasets", "Labels", "Matrix", "MatrixLike", "PathLike", "RandomState")
}
napoleon_google_docstring = False
napoleon_use_rtype = False
