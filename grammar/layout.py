"""Formats a text, with its comments, in its canonical form."""

from collections.abc import Iterator
from dataclasses import dataclass

from grammar.ast import Statement
from grammar.format import clauses_of
from grammar.scanner import comments
from grammar.script_parser import parse

_WIDTH = 100


@dataclass(frozen=True, slots=True)
class _Block:
    """A statement or a comment, with its offsets in the source.

    ``follows``: whether the block begins on the line on which the previous block ends.
    """

    text: str
    start: int
    end: int
    follows: bool = False


def format_text(text: str) -> str:
    """Return ``text`` in its canonical form.

    Comments before, between and after statements stay in place; a comment within a statement is
    moved before the statement. Raises ParseError for a text with syntax errors.
    """
    parts: list[str] = []
    end = 0
    for block in _blocks(text):
        if block.follows:
            parts.append("  ")
        elif parts:
            parts.append("\n\n" if text.count("\n", end, block.start) > 1 else "\n")
        parts.append(block.text)
        end = block.end
    return f"{''.join(parts)}\n"


def _blocks(text: str) -> Iterator[_Block]:
    """Yield statements and comments in the order of the canonical form."""
    waiting = list(reversed(comments(text)))
    end = None  # of the last block on a line that a statement is on
    for statement in parse(text).statements:
        start = statement.span.offset
        while waiting and waiting[-1][0] < start:
            block = _beside(text, *waiting.pop(), end)
            end = block.end if block.follows else None
            yield block
        while waiting and waiting[-1][0] < start + statement.span.length:
            first, last = waiting.pop()
            yield _Block(text[first:last].rstrip(), start, start)
        end = start + statement.span.length
        yield _Block(_lay(statement), start, end)
    while waiting:
        block = _beside(text, *waiting.pop(), end)
        end = block.end if block.follows else None
        yield block


def _beside(text: str, start: int, end: int, before: int | None) -> _Block:
    """Return a comment as a block.

    ``before``: the end of the previous block, on whose line the comment may stay; None: the comment
    starts a new line.
    """
    follows = before is not None and "\n" not in text[before:start]
    return _Block(text[start:end].rstrip(), start, end, follows)


def _lay(statement: Statement) -> str:
    """Return a statement on one line, or with one line per clause if one line would be too long."""
    clauses = clauses_of(statement)
    line = f"{' '.join(clauses)};"
    return line if len(line) <= _WIDTH else "\n    ".join(clauses) + ";"
