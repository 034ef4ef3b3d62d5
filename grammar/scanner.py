"""From text to tokens: the generated lexer's own automaton, without ANTLR's cost a character."""

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


class Token:
    """A token; it has what ANTLR's parser and we read of it, and none of ANTLR's weight."""

    __slots__ = ("column", "line", "offset", "text", "type")

    def __init__(self, kind: int, text: str, offset: int, line: int, column: int) -> None:
        self.type = kind
        self.text = text
        self.offset = offset
        self.line = line
        self.column = column

    @property
    def span(self) -> Span:
        """Where the token stands."""
        return Span(self.line, self.column, self.offset, len(self.text))


def scan(text: str) -> Iterator[Token]:
    """Yield the tokens of ``text``, without spaces and comments; what is none is ``UNKNOWN``."""
    line, line_start = 1, 0
    for kind, start, end in _cut(text):
        if kind not in _SKIPPED:
            yield Token(kind, text[start:end], start, line, start - line_start + 1)
        elif newlines := text.count("\n", start, end):
            line += newlines
            line_start = text.rindex("\n", start, end) + 1


def comments(text: str) -> list[tuple[int, int]]:
    """Return where the comments of ``text`` stand, as offsets of start and end, in its order."""
    return [(start, end) for kind, start, end in _cut(text) if kind in _COMMENTS]


def _cut(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield kind, start and end of every token.

    ANTLR caches its automaton's steps for ASCII only. All other characters are alike to the
    grammar (they belong in strings and comments), so one control character stands for them.
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
    """Return kind and end of the token at ``start``, or None where a step is not cached yet."""
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
