"""Collecting all that is wrong, for the user to see it at once."""

import difflib
from collections.abc import Iterable
from dataclasses import replace

from grammar import Problem, Span, problem_at

MOST_SEARCHED = 20
"""Words that near ones are looked for, of those that one text has."""


class Findings:
    """Problems in the order in which they were found."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.errors = 0
        self._searched: dict[tuple[str, frozenset[str]], list[str]] = {}

    def nearest(self, word: str, known: Iterable[str]) -> list[str]:
        """Return known words that look like ``word``; none once many others were looked for.

        Among thousands of words, a search takes milliseconds.
        """
        search = (word, frozenset(known))
        if search not in self._searched:
            if len(self._searched) >= MOST_SEARCHED:
                return []
            self._searched[search] = nearest(*search)
        return self._searched[search]

    def error(self, span: Span, message: str, hint: str) -> None:
        """Add what keeps the insight from being deployed."""
        self.errors += 1
        self.problems.append(problem_at(span, message, hint))

    def warning(self, span: Span, message: str, hint: str) -> None:
        """Add what the user probably did not mean."""
        self.problems.append(problem_at(span, message, hint, "warning"))


def beginning(span: Span, length: int) -> Span:
    """Return the first ``length`` characters of a stretch of text."""
    return replace(span, length=min(span.length, length))


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """Return up to three known words that look like ``word``, the most alike first."""
    by_folded = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(word.casefold(), by_folded, n=3, cutoff=0.6)
    return [by_folded[name] for name in near]


def did_you_mean(words: list[str]) -> str:
    """Return a question for a hint, as in 'Did you mean `a`, `b` or `c`?'."""
    *others, last = [f"`{word}`" for word in words]
    return f"Did you mean {', '.join(others) + ' or ' if others else ''}{last}?"
