"""The insight language.

``parse`` returns the syntax tree of a text; ``format_script`` returns the text of a tree.
"""

from grammar.ast import Script, Span
from grammar.diagnostics import Diagnostic, ParseError, diagnostic_at, render
from grammar.format import format_node, format_script, format_statement
from grammar.layout import format_text
from grammar.parse import parse

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
