"""The insight language: ``parse`` makes a syntax tree of a text, ``format_script`` the reverse."""

from grammar.ast import Script, Span
from grammar.format import format_insight, format_node, format_script
from grammar.parse import parse
from grammar.problems import ParseError, Problem, problem_at, render

__all__ = [
    "ParseError",
    "Problem",
    "Script",
    "Span",
    "format_insight",
    "format_node",
    "format_script",
    "parse",
    "problem_at",
    "render",
]
