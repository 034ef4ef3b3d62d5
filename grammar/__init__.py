"""The insight language: ``parse`` makes a syntax tree of a text, ``format_script`` the reverse."""

from grammar.ast import Script, Span
from grammar.format import format_node, format_script, format_statement
from grammar.layout import format_text
from grammar.parse import parse
from grammar.problems import ParseError, Problem, problem_at, render

__all__ = [
    "ParseError",
    "Problem",
    "Script",
    "Span",
    "format_node",
    "format_script",
    "format_statement",
    "format_text",
    "parse",
    "problem_at",
    "render",
]
