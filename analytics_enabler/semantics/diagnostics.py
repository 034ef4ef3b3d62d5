"""Diagnostics: the errors and warnings of a text, with positions and hints."""

import difflib
from collections.abc import Iterable
from dataclasses import replace

from grammar import Diagnostic, Span, diagnostic_at

MAX_SEARCHES = 20
"""The maximum number of searches for similar words in the check of one text."""


class Diagnostics:
    """The diagnostics of a text, or of one statement in it, in the order of discovery."""

    def __init__(self) -> None:
        self.problems: list[Diagnostic] = []

    def error(self, span: Span, message: str, hint: str) -> None:
        """Add an error; a text with an error cannot be deployed."""
        self.problems.append(error(span, message, hint))

    def warning(self, span: Span, message: str, hint: str) -> None:
        """Add a warning: the statement probably does not mean what its author intended."""
        self.problems.append(warning(span, message, hint))

    def extend(self, problems: Iterable[Diagnostic]) -> None:
        """Add diagnostics."""
        self.problems.extend(problems)

    @property
    def has_errors(self) -> bool:
        """Whether one of the diagnostics is an error."""
        return any(problem.severity == "error" for problem in self.problems)


class Suggestions:
    """Finds similar words for hints; the number of searches per text is limited."""

    def __init__(self) -> None:
        self._results: dict[tuple[str, frozenset[str]], list[str]] = {}

    def nearest(self, word: str, candidates: Iterable[str]) -> list[str]:
        """Return up to three candidates similar to ``word``, the most similar first.

        Return [] after ``MAX_SEARCHES`` different searches, because each search among thousands of
        candidates takes milliseconds.
        """
        search = (word, frozenset(candidates))
        if search not in self._results:
            if len(self._results) >= MAX_SEARCHES:
                return []
            self._results[search] = nearest(*search)
        return self._results[search]


def error(span: Span, message: str, hint: str) -> Diagnostic:
    """Return an error at a span."""
    return diagnostic_at(span, message, hint)


def warning(span: Span, message: str, hint: str) -> Diagnostic:
    """Return a warning at a span."""
    return diagnostic_at(span, message, hint, "warning")


def head(span: Span, length: int) -> Span:
    """Return the span of the first ``length`` characters of ``span``."""
    return replace(span, length=min(span.length, length))


def nearest(word: str, candidates: Iterable[str]) -> list[str]:
    """Return up to three candidates similar to ``word``, the most similar first."""
    by_folded = {name.casefold(): name for name in candidates}
    near = difflib.get_close_matches(word.casefold(), by_folded, n=3, cutoff=0.6)
    return [by_folded[name] for name in near]


def did_you_mean(words: list[str]) -> str:
    """Return a question that suggests ``words``, such as "Did you mean `a`, `b` or `c`?"."""
    *others, last = [f"`{word}`" for word in words]
    return f"Did you mean {', '.join(others) + ' or ' if others else ''}{last}?"
