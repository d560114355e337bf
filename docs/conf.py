"""How the documentation is built: MyST pages, autodoc for the public names, nothing fetched from the network."""

import logging

from docutils import nodes
from latex2mathml.converter import convert as latex_to_mathml
from sphinx.ext.napoleon import Config, NumpyDocstring

import lowregret

project = "lowregret"
author = "The lowregret authors"
project_copyright = "The lowregret authors"
version = release = lowregret.__version__

logging.getLogger("lowregret").setLevel(logging.WARNING)  # else latex2mathml shows every alarm of the examples

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "examples/**/*.ipynb", "examples/**/*.py", "examples/**/*.json"]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the signatures carry the names; what a parameter means is in the text

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "examples",
    "filename_pattern": "plot_",
    # A script of minutes that needs a model, a service, and what other scripts import.
    "ignore_pattern": "smollm2|real_|production",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 10**6,
    "abort_on_example_error": True,
    "only_warn_on_example_error": False,
    "reset_modules": ("matplotlib",),
}

html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["formulas.css"]
html_theme = "furo"
html_title = f"lowregret {release}"
html_show_sphinx = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

DOCSTRINGS = Config(napoleon_google_docstring=False, napoleon_attr_annotations=False)


def read_docstring(app, what, name, obj, options, lines):
    """NumPy-style docstrings by napoleon, with three habits of this project.

    |x| is an absolute value, not a reStructuredText substitution; an example needs no heading after the parameters;
    and "this: that" in the docstring of a property is a sentence, not a type.
    """
    lines[:] = [line if ">>>" in line or "``" in line else line.replace("|", r"\|") for line in lines]
    if what in ("attribute", "data", "property"):
        return
    example = next((i for i, line in enumerate(lines) if line.startswith(">>>")), None)
    if example is not None and "Parameters" in lines[:example]:
        lines[example:example] = ["Examples", "--------"]
    lines[:] = NumpyDocstring(lines, DOCSTRINGS, app, what, name, obj, options).lines()


def write_math(display):
    """Formulas as MathML, which browsers draw themselves: nothing is fetched to read a page."""

    def visit(translator, node):
        formula = latex_to_mathml(node.astext(), display=display)
        translator.body.append(f'<div class="formula">{formula}</div>' if display == "block" else formula)
        raise nodes.SkipNode

    return visit, None


def setup(app):
    app.add_html_math_renderer("mathml", inline_renderers=write_math("inline"), block_renderers=write_math("block"))
    app.connect("autodoc-process-docstring", read_docstring)
