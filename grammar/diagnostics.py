"""Diagnostics of a text, and their rendering with the source line."""

from dataclasses import dataclass
from typing import Literal

from grammar.ast import Span, Statement

_WIDTH = 100  # of the source line shown; a longer one is clipped around the caret
_QUOTED = 40


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An error or a warning: a message, a hint for the correction, and a location in the text.

    ``line`` and ``column`` are 1-based. ``length`` is in characters; it is 0 at the end of the
    text.
    """

    line: int
    column: int
    length: int
    message: str
    hint: str | None = None
    severity: Literal["error", "warning"] = "error"


@dataclass(frozen=True, slots=True)
class PartialScript:
    """The valid part of a text with syntax errors.

    ``statements``: the valid statements, at least one. ``names``: the names that the invalid
    statements may define.
    """

    statements: tuple[Statement, ...]
    names: frozenset[str]


class ParseError(Exception):
    """The error for a text with syntax errors.

    ``problems``: at least one diagnostic. ``partial``: the valid part of the text; None if the
    valid part cannot be determined.
    """

    def __init__(
        self, problems: tuple[Diagnostic, ...], partial: PartialScript | None = None
    ) -> None:
        first, *others = problems
        more = f" (and {len(others)} more)" if others else ""
        super().__init__(f"line {first.line}, column {first.column}: {first.message}{more}")
        self.problems = problems
        self.partial = partial


def diagnostic_at(
    span: Span,
    message: str,
    hint: str | None = None,
    severity: Literal["error", "warning"] = "error",
) -> Diagnostic:
    """Return a diagnostic for the text at ``span``."""
    return Diagnostic(span.line, span.column, span.length, message, hint, severity)


def clip(text: str) -> str:
    """Return a text, shortened to the maximum length of a quotation in a message."""
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"


def render(problem: Diagnostic, text: str) -> str:
    """Return a diagnostic as text: the message, its source line, a caret line and the hint.

    ``text``: the complete text that was parsed. The returned text has no trailing newline.
    """
    where = f"line {problem.line}, column {problem.column}"
    shown, indent, width = _excerpt(problem, text)
    number = str(problem.line)
    margin = " " * len(number)
    lines = [
        f"{problem.severity} at {where}: {problem.message}",
        f"{number} | {shown}".rstrip(),
        f"{margin} | {indent}{'^' * width}",
    ]
    if problem.hint is not None:
        lines.append(f"{margin} = hint: {problem.hint}")
    return "\n".join(lines)


def _excerpt(problem: Diagnostic, text: str) -> tuple[str, str, int]:
    """Return (clipped source line, indent of the caret, width of the caret in characters)."""
    lines = text.split("\n", problem.line)
    line = lines[problem.line - 1].removesuffix("\r") if problem.line <= len(lines) else ""
    start = min(problem.column - 1, len(line))
    first = 0 if len(line) <= _WIDTH else max(0, start - _WIDTH // 2)
    clipped = line[first : first + _WIDTH]
    before, after = "…" if first else "", "…" if first + _WIDTH < len(line) else ""
    # A tab stays a tab, so that the caret is below its character.
    indent = "".join("\t" if char == "\t" else " " for char in before + line[first:start])
    width = max(1, min(problem.length, len(clipped) - (start - first)))
    return f"{before}{clipped}{after}", indent, width
