"""The selection of series by matchers.

The regular expressions of matchers have the syntax of RE2, as in Prometheus.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_agent.promql.errors import PromqlError
from storage_agent.promql.labels import NAME, RAW_NAME, Labels

Op = Literal["=", "!=", "=~", "!~"]

_MAX_QUOTED = 200
"""The maximum number of characters of a pattern that an error quotes."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """A condition on the value of a label; a missing label has the empty text as its value."""

    name: str
    op: Op
    value: str


@dataclass(frozen=True, slots=True)
class Selector:
    """The matchers of a vector selector; a series must satisfy all matchers."""

    matchers: tuple[Matcher, ...]

    def restrict_to(self, *names: str) -> "Selector":
        """Return a selector with only those matchers whose labels are in ``names``."""
        return Selector(tuple(matcher for matcher in self.matchers if matcher.name in names))


def match_series(selector: Selector, series: Sequence[Labels]) -> npt.NDArray[np.bool_]:
    """Return a mask of the series that satisfy all matchers of a selector."""
    matches = np.ones(len(series), np.bool_)
    for matcher in selector.matchers:
        matched = _match_values(matcher, [_value(labels, matcher.name) for labels in series])
        if matcher.name == NAME:
            # The metric's name as it was posted matches as well as the valid one.
            raw = [_value(labels, RAW_NAME) or _value(labels, NAME) for labels in series]
            raw_matched = _match_values(matcher, raw)
            negated = matcher.op in ("!=", "!~")
            matched = matched & raw_matched if negated else matched | raw_matched
        matches &= matched
    return matches


def full_match(pattern: str, texts: Iterable[str]) -> npt.NDArray[np.bool_]:
    """Return a mask of the texts that match a pattern from start to end.

    Raises ``PromqlError`` for an invalid pattern.
    """
    try:
        # With an additional text: without texts, Arrow does not check the pattern.
        checked = pa.array([*texts, ""], pa.string())
        matches = pc.match_substring_regex(checked, anchored(pattern))[:-1]
    except pa.ArrowInvalid as error:
        raise PromqlError(
            f"{pattern[:_MAX_QUOTED]!r} is not a valid regular expression (RE2): {error}"
        ) from error
    array: npt.NDArray[np.bool_] = matches.to_numpy(zero_copy_only=False)
    return array.astype(np.bool_)


def anchored(pattern: str) -> str:
    """Return a pattern that matches only whole texts, from start to end."""
    return f"^(?:{pattern})$"


MAX_LABEL_CHARACTERS = 16 * 2**20
"""The maximum number of characters that a function adds to the labels of all series together."""


def check_characters(function: str, count: int) -> None:
    """Raise ``PromqlError`` if a function would add too many characters, ``count``, to labels.

    >>> check_characters("label_join", 1000)
    """
    if count > MAX_LABEL_CHARACTERS:
        raise PromqlError(
            f"{function}() would add more than {MAX_LABEL_CHARACTERS} characters to labels: select "
            "fewer series, or set shorter labels"
        )


def replace_all(pattern: str, template: str, texts: Sequence[str]) -> list[str | None]:
    """Return, for each text, the template filled with the groups that the pattern captures.

    The item of a text that does not match the pattern is None. Raises ``PromqlError`` if the
    results could have too many characters.
    """
    references = sum(1 for _ in _REFERENCE.finditer(template))
    largest = len(texts) * len(template) + references * sum(map(len, texts))
    check_characters("label_replace", largest)
    matches = full_match(pattern, texts)
    array = pa.array(texts, pa.string())
    rewritten = pc.replace_substring_regex(
        array, pattern=anchored(pattern), replacement=_rewrite(template, _groups(pattern))
    ).to_pylist()
    return [text if matched else None for text, matched in zip(rewritten, matches, strict=True)]


def _value(labels: Labels, name: str) -> str:
    """Return the value of a label; a missing label has the empty text."""
    for each, value in labels:
        if each == name:
            return value
    return ""


def _match_values(matcher: Matcher, texts: list[str]) -> npt.NDArray[np.bool_]:
    # Not by a sort, which would not let other threads run.
    numbers: dict[str, int] = {}
    inverse = np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int64)
    if matcher.op in ("=~", "!~"):
        matched = full_match(matcher.value, numbers)
    else:
        matched = np.array([text == matcher.value for text in numbers], np.bool_)
    matches: npt.NDArray[np.bool_] = matched[inverse]
    return ~matches if matcher.op in ("!=", "!~") else matches


_GROUP = re.compile(
    r"\\Q.*?(?:\\E|$)"  # quoted text
    r"|\\."
    r"|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]"  # a character class
    r"|\((?!\?)"
    r"|\(\?P<(\w+)>",
    re.DOTALL,
)


def _groups(pattern: str) -> dict[str, int]:
    """Return the numbers of the capturing groups: name, or number as text -> number."""
    found = {"0": 0}
    for token in _GROUP.finditer(pattern):
        if token[0] == "(" or token[1]:
            number = len({*found.values()})
            found[str(number)] = number
            if token[1]:
                found[token[1]] = number
    return found


_REFERENCE = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\})|(\\)", re.ASCII)


def _rewrite(template: str, groups: dict[str, int]) -> str:
    r"""Convert a template from the syntax of Go (``$1``, ``${name}``) to that of RE2 (``\1``).

    ``groups``: name, or number as text -> number. References to unknown groups become empty texts.
    Raises ``PromqlError`` for a number above 9.
    """

    def convert(token: re.Match[str]) -> str:
        if token[1]:
            return "$"
        if token[4]:
            return r"\\"
        number = groups.get(token[2] or token[3])
        if number is None:
            return ""
        if number > 9:
            raise PromqlError("label_replace(): the replacement refers to a group above $9")
        return rf"\{number}"

    return _REFERENCE.sub(convert, template)
