"""The insight language.

``parse`` returns the syntax tree of a text; ``format_script`` returns the text of a tree. The
tables of the parser take 8 MB, and a worker needs only some words of the language: so the modules
of these functions are imported at the first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from grammar.ast import Script, Span
from grammar.diagnostics import Diagnostic, ParseError, diagnostic_at, render

if TYPE_CHECKING:
    from grammar.format import format_node, format_script, format_statement
    from grammar.layout import format_text
    from grammar.script_parser import parse

__all__ = [
    "Diagnostic",
    "ParseError",
    "Script",
    "Span",
    "diagnostic_at",
    "format_node",
    "format_script",
    "format_statement",
    "format_text",
    "parse",
    "render",
]

_MODULES = {
    "format_node": "grammar.format",
    "format_script": "grammar.format",
    "format_statement": "grammar.format",
    "format_text": "grammar.layout",
    "parse": "grammar.script_parser",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value
