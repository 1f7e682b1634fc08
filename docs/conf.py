"""settings of the documentation site: `python -m sphinx -W -b html docs docs/_build`

Pages ask for nothing from anywhere else: no fonts, scripts or formulas are fetched.
"""

import ast
import inspect
import re
import tokenize
from dataclasses import is_dataclass
from io import StringIO
from textwrap import dedent
from typing import Any

from docutils import nodes
from numpy.typing import ArrayLike
from sphinx import addnodes
from sphinx.util.typing import stringify_annotation

import diskoop

project = "diskoop"
author = "The diskoop developers"
copyright = "The diskoop developers, MIT licence"
version = release = diskoop.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]

myst_heading_anchors = 4  # links such as evaluation.md#the-verdict
smartquotes_action = "D"  # dashes only: quotes in docstrings are code
default_role = "code"  # docstrings put names between single backticks

autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_class_signature = "separated"
autodoc_default_options = {"members": True, "exclude-members": "__init__, __new__, model_config"}
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_use_rtype = False

highlight_language = "text"

templates_path = ["_templates"]
pygments_dark_style = "github-dark"
html_theme = "furo"
html_title = "diskoop"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_sourcelink = False


def field_comments(kind: type) -> dict[str, str]:
    """The comments beside, or else above, the fields of a record, by name."""
    try:
        source = dedent(inspect.getsource(kind))
    except (OSError, TypeError):  # made by a function, not written down
        return {}
    tokens = tokenize.generate_tokens(StringIO(source).readline)
    comments = {token.start[0]: token for token in tokens if token.type == tokenize.COMMENT}
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_":
            if node.end_lineno in comments:
                lines = [comments[node.end_lineno].string]
            else:
                number, lines = node.lineno - 1, []
                while number in comments and comments[number].start[1] == node.col_offset:
                    lines.insert(0, comments[number].string)
                    number -= 1
            found[node.target.id] = " ".join(line.removeprefix("#").strip() for line in lines)
    return found


def describe_fields(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Add the fields of a record to its docstring: what the source says in comments."""
    if what == "property":  # napoleon takes "(n, time): ..." for a type and what has it
        lines[:] = [*inspect.cleandoc(thing.__doc__ or "").splitlines(), ""]
    marks = ("_fields", "model_fields", "_is_protocol")  # of named tuples, settings and protocols
    is_record = what == "class" and (is_dataclass(thing) or any(hasattr(thing, mark) for mark in marks))
    comments = field_comments(thing) if is_record else {}
    if not comments or any(line.startswith(":param") for line in lines):  # none, or told in the docstring
        return
    kinds = inspect.get_annotations(thing)
    fields = [":Fields:"]
    for field, comment in comments.items():
        kind = kinds.get(field, "")
        shown = kind if isinstance(kind, str) else inspect.formatannotation(kind, base_module="builtins")
        shown = re.sub(r"ForwardRef\('(.*?)'\)|'([A-Z]\w*)'", r"\1\2", shown_array(shown))  # names that were quoted
        shown = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])", "", shown)
        fields.append(f"    * **{field}** (`{shown}`)" + (f": {comment}" if comment else ""))
    place = next((i for i, line in enumerate(lines) if line.startswith(".. rubric:: Example")), len(lines))
    lines[place:place] = ["", *fields, ""]


ARRAY_LIKE = stringify_annotation(ArrayLike, "smart")
ARRAY = re.compile(r"ndarray\[tuple\[~?(?:typing\.)?Any, \.\.\.\], ~?(?:numpy\.)?dtype\[([^\]]+)\]\]")


def shown_array(text: str) -> str:
    """NDArray[x] and ArrayLike as they are written, not as what they stand for."""
    return ARRAY.sub(r"NDArray[\1]", text.replace(ARRAY_LIKE, "ArrayLike"))


def shorten_signature(
    app: Any, what: str, name: str, thing: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Types of arrays as they are written."""
    return signature and shown_array(signature), returned and shown_array(returned)


def shorten_properties(app: Any, page: Any) -> None:
    """Types of properties, which no event of autodoc hands over, in the same way."""
    for annotation in page.findall(addnodes.desc_annotation):
        text = annotation.astext()
        if (shorter := shown_array(text)) != text:
            annotation.children = [nodes.Text(shorter)]


def skip_fields(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Fields are told with the docstring: leave out those of named tuples, and functions that are a field's default."""
    is_default = inspect.isfunction(thing) and thing.__name__ != name.rpartition(".")[2]
    return True if is_default or type(thing).__name__ == "_tuplegetter" else None


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", describe_fields)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("doctree-read", shorten_properties)
