"""The scanner: runs the generated lexer's automaton without ANTLR's overhead per character."""

import re
from collections.abc import Iterator
from typing import Any

from antlr4 import InputStream
from antlr4.atn.LexerATNSimulator import LexerATNSimulator

from grammar.ast import Span
from grammar.generated.InsightsLexer import InsightsLexer

_COMMENTS = frozenset({InsightsLexer.LINE_COMMENT, InsightsLexer.BLOCK_COMMENT})
_SKIPPED = _COMMENTS | {InsightsLexer.SPACE}
_MODE = 0
_FOREIGN_SPACE = re.compile("[\u00a0\ufeff]")  # what editors and web pages slip in
_FOREIGN = re.compile("[^\x00-\x7f]")


class LexicalToken:
    """A token with only those fields that ANTLR's parser reads.

    ``line`` and ``column`` are 1-based, ``offset`` is 0-based.
    """

    __slots__ = ("column", "line", "offset", "text", "type")

    def __init__(self, kind: int, text: str, offset: int, line: int, column: int) -> None:
        self.type = kind
        self.text = text
        self.offset = offset
        self.line = line
        self.column = column

    @property
    def span(self) -> Span:
        """The location of the token in the source text."""
        return Span(self.line, self.column, self.offset, len(self.text))


def scan(text: str) -> Iterator[LexicalToken]:
    """Yield the tokens of a text, without spaces and comments; invalid tokens are ``UNKNOWN``."""
    line, line_start = 1, 0
    for kind, start, end in _cut(text):
        if kind not in _SKIPPED:
            yield LexicalToken(kind, text[start:end], start, line, start - line_start + 1)
        elif newlines := text.count("\n", start, end):
            line += newlines
            line_start = text.rindex("\n", start, end) + 1


def comments(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of each comment of a text, as offsets, in the order of the text."""
    return [(start, end) for kind, start, end in _cut(text) if kind in _COMMENTS]


def _cut(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield (kind, start, end) of every token, including spaces and comments, as offsets.

    ANTLR caches the transitions of its automaton only for ASCII. All other characters occur only in
    strings and comments, where the grammar does not distinguish between characters. Therefore one
    control character replaces each of these characters.
    """
    plain = _FOREIGN.sub("\x01", _FOREIGN_SPACE.sub(" ", text))
    stream = InputStream(plain)
    simulator = InsightsLexer(stream)._interp
    codes = plain.encode("ascii")
    start = 0
    while start < len(codes):
        found = _walk(simulator.decisionToDFA[_MODE].s0, codes, start)
        if found is None:
            stream.seek(start)
            found = simulator.match(stream, _MODE), stream.index
        yield found[0], start, found[1]
        start = found[1]


def _walk(state: Any, codes: bytes, start: int) -> tuple[int, int] | None:
    """Return (kind, end) of the token at ``start``.

    Return None if a transition of the automaton is not cached, or if no token matches.
    """
    found = None
    for end in range(start, len(codes)):
        edges = None if state is None else state.edges
        state = None if edges is None else edges[codes[end]]
        if state is None:
            return None
        if state is LexerATNSimulator.ERROR:
            return found
        if state.isAcceptState:
            found = state.prediction, end + 1
    return found
