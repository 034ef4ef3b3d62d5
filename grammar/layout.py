"""A text in its canonical form with its comments, for people to read."""

from collections.abc import Iterator
from dataclasses import dataclass

from grammar.ast import Statement
from grammar.format import clauses_of
from grammar.parse import parse
from grammar.scanner import comments

_WIDTH = 100


@dataclass(frozen=True, slots=True)
class _Block:
    """A statement or a comment, and where the source has it, as offsets.

    ``follows``: it stays on the line on which the block before it ends.
    """

    text: str
    start: int
    end: int
    follows: bool = False


def format_text(text: str) -> str:
    """Return ``text`` in its canonical form.

    Comments stay before, between and behind the statements; those within a statement move before
    it. Raises ParseError, as ``parse`` does.
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
    """Yield statements and comments in the order in which they are to stand."""
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
    """Return a comment between statements; ``before``: where the block before it on a line ends."""
    follows = before is not None and "\n" not in text[before:start]
    return _Block(text[start:end].rstrip(), start, end, follows)


def _lay(statement: Statement) -> str:
    """Return a statement on one line, or on a line for each clause where that is too long."""
    clauses = clauses_of(statement)
    line = f"{' '.join(clauses)};"
    return line if len(line) <= _WIDTH else "\n    ".join(clauses) + ";"
