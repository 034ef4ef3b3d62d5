"""What may be wrong with a text, where, and how to show it."""

from dataclasses import dataclass
from typing import Literal

from grammar.ast import Span, Statement

_WIDTH = 100  # of the source line shown; a longer one is clipped around the problem
_QUOTED = 40


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong (``message``), how to mend it (``hint``) and where.

    ``line`` and ``column`` are 1-based; ``length`` counts characters, 0 at the end of the text.
    """

    line: int
    column: int
    length: int
    message: str
    hint: str | None = None
    severity: Literal["error", "warning"] = "error"


@dataclass(frozen=True, slots=True)
class Rest:
    """The sound statements of a text, at least one, and the names that the others may define."""

    statements: tuple[Statement, ...]
    names: frozenset[str]


class ParseError(Exception):
    """A text is not in the insight language; ``problems`` (at least one) say where and why.

    ``rest`` is what is sound of it, None where that cannot be told.
    """

    def __init__(self, problems: tuple[Problem, ...], rest: Rest | None = None) -> None:
        first, *others = problems
        more = f" (and {len(others)} more)" if others else ""
        super().__init__(f"line {first.line}, column {first.column}: {first.message}{more}")
        self.problems = problems
        self.rest = rest


def problem_at(
    span: Span,
    message: str,
    hint: str | None = None,
    severity: Literal["error", "warning"] = "error",
) -> Problem:
    """Return a problem with the stretch of text at ``span``."""
    return Problem(span.line, span.column, span.length, message, hint, severity)


def clip(text: str) -> str:
    """Return ``text``, cut where it is too long to quote in a message."""
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"


def render(problem: Problem, text: str) -> str:
    """Return the problem in words, above its source line, a caret line and the hint.

    ``text`` is the whole text that was parsed; the result has no newline at its end.
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


def _excerpt(problem: Problem, text: str) -> tuple[str, str, int]:
    """Return the source line, clipped; what stands before the caret; the caret's width."""
    lines = text.split("\n", problem.line)
    line = lines[problem.line - 1].removesuffix("\r") if problem.line <= len(lines) else ""
    start = min(problem.column - 1, len(line))
    first = 0 if len(line) <= _WIDTH else max(0, start - _WIDTH // 2)
    clipped = line[first : first + _WIDTH]
    before, after = "…" if first else "", "…" if first + _WIDTH < len(line) else ""
    # A tab stays a tab, so that the caret stands below what it means.
    indent = "".join("\t" if char == "\t" else " " for char in before + line[first:start])
    width = max(1, min(problem.length, len(clipped) - (start - first)))
    return f"{before}{clipped}{after}", indent, width
