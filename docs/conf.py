"""The documentation as a site: `make site`.

Documents are Markdown, as they stand in the repository; the reference is made of the docstrings of
what is public. A warning is an error, a link that leads nowhere among them.
"""

import importlib
import inspect
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import outcrop

project = "Outcrop"
version = release = outcrop.__version__
project_copyright = "the authors of Outcrop"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
nitpicky = True
# Errors of NumPy's that ours are, too.
nitpick_ignore_regex = [("py:class", r"numpy\..*")]

myst_heading_anchors = 4

# In docstrings, single backticks are code: names are found by the index.
default_role = "code"
autodoc_typehints = "none"
autosummary_generate = False
numpydoc_show_class_members = False

html_theme = "furo"
html_title = f"Outcrop {version}"
html_copy_source = False
html_show_sphinx = False
copybutton_exclude = ".linenos, .gp, .go"


class Public(SphinxDirective):
    """What is public of a module: a table, and then every name in full.

    The argument is the module under which things are known. Without names in the content, they are
    those of `__all__` in the modules of the option `of`, or in that module itself.
    """

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {"of": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Make the table and the entries."""
        (module,) = self.arguments
        names = [line for line in map(str.strip, self.content) if line]
        if not names:
            for source in self.options.get("of", module).split():
                names += importlib.import_module(source).__all__
        values = {name: getattr(importlib.import_module(module), name) for name in names}
        lines = [f".. currentmodule:: {module}", "", ".. autosummary::", "   :nosignatures:", ""]
        lines += [f"   {name}" for name in names if not is_plain(values[name])]
        for name in names:
            lines += ["", *entry(name, values[name])]
        return self.parse_text_to_nodes("\n".join(lines))


def is_plain(value: object) -> bool:
    """Whether a value is no function or class of ours: a number, a text, a type of NumPy's."""
    return not callable(value) or getattr(value, "__module__", "") == "numpy"


def entry(name: str, value: object) -> list[str]:
    """Say what documents a name in full."""
    if is_plain(value):
        said = value if isinstance(value, int | float | str | None) else f"numpy.{value.__name__}"
        return [f".. py:data:: {name}", f"   :value: {said}"]
    if not inspect.isclass(value):
        return [f".. autofunction:: {name}"]
    if issubclass(value, Exception):
        return [f".. autoexception:: {name}", "   :show-inheritance:"]
    # What is an array as well has the members of `Array`, which are described there.
    inherited = "   :inherited-members: Array, tuple"
    return [f".. autoclass:: {name}", "   :members:", inherited]


def public_bases(app: Sphinx, name: str, obj: object, options: object, bases: list[type]) -> None:
    """Show what a class is of by what is public: bases of those that are not."""
    while hidden := [base for base in bases if base.__name__.startswith("_")]:
        at = bases.index(hidden[0])
        bases[at : at + 1] = [base for base in hidden[0].__bases__ if base not in bases]


def setup(app: Sphinx) -> None:
    """Make the directive known."""
    app.add_directive("public", Public)
    app.connect("autodoc-process-bases", public_bases)
