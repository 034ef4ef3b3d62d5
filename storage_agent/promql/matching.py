"""Choosing series by matchers; regular expressions are RE2's, as in Prometheus, and are fast."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_agent.promql.labels import NAME, RAW_NAME, Labels
from storage_agent.promql.problems import PromqlError

Op = Literal["=", "!=", "=~", "!~"]


@dataclass(frozen=True, slots=True)
class Matcher:
    """What one label of a series must be; a label that it lacks is an empty text."""

    name: str
    op: Op
    value: str


@dataclass(frozen=True, slots=True)
class Selector:
    """The matchers of a selector, all of which a series must fit."""

    matchers: tuple[Matcher, ...]

    def on(self, *names: str) -> "Selector":
        """Return only what is said of these labels."""
        return Selector(tuple(matcher for matcher in self.matchers if matcher.name in names))


def fitting(selector: Selector, series: Sequence[Labels]) -> npt.NDArray[np.bool_]:
    """Return of each of some series whether it fits."""
    fits = np.ones(len(series), np.bool_)
    known = [dict(labels) for labels in series]
    for matcher in selector.matchers:
        told = _tested(matcher, [labels.get(matcher.name, "") for labels in known])
        if matcher.name == NAME:
            # The name as it was posted will do as well as the one that is shown.
            raw = [labels.get(RAW_NAME, labels.get(NAME, "")) for labels in known]
            other = _tested(matcher, raw)
            told = told & other if matcher.op in ("!=", "!~") else told | other
        fits &= told
    return fits


def full_match(pattern: str, texts: Iterable[str]) -> npt.NDArray[np.bool_]:
    """Return of each text whether all of it matches; raises ``PromqlError`` for no pattern."""
    try:
        matches = pc.match_substring_regex(pa.array(texts, pa.string()), anchored(pattern))
    except pa.ArrowInvalid as error:
        raise PromqlError(f"{pattern!r} is no regular expression (RE2): {error}") from error
    array: npt.NDArray[np.bool_] = matches.to_numpy(zero_copy_only=False)
    return array.astype(np.bool_)


def anchored(pattern: str) -> str:
    """Return a pattern that must match from the beginning to the end."""
    return f"^(?:{pattern})$"


def replace_all(pattern: str, template: str, texts: Sequence[str]) -> list[str | None]:
    """Return of each text what the template makes of its groups; None where it does not match."""
    matches = full_match(pattern, texts)
    array = pa.array(texts, pa.string())
    rewritten = pc.replace_substring_regex(
        array, pattern=anchored(pattern), replacement=_rewrite(template, _groups(pattern))
    ).to_pylist()
    return [text if hit else None for text, hit in zip(rewritten, matches, strict=True)]


def _tested(matcher: Matcher, texts: list[str]) -> npt.NDArray[np.bool_]:
    distinct, inverse = np.unique(np.array(texts, object), return_inverse=True)
    if matcher.op in ("=~", "!~"):
        hits = full_match(matcher.value, distinct.tolist())
    else:
        hits = np.array([text == matcher.value for text in distinct], np.bool_)
    told: npt.NDArray[np.bool_] = hits[inverse]
    return ~told if matcher.op in ("!=", "!~") else told


_GROUP = re.compile(
    r"\\Q.*?(?:\\E|$)"  # a text as it is
    r"|\\."
    r"|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]"  # a class
    r"|\((?!\?)"
    r"|\(\?P<(\w+)>",
    re.DOTALL,
)


def _groups(pattern: str) -> dict[str, int]:
    """Return the number of each capturing group by name and, as a text, by number."""
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
    r"""Turn Go's ``$1`` and ``${name}`` into RE2's ``\1``; what names no group is nothing."""

    def turned(token: re.Match[str]) -> str:
        if token[1]:
            return "$"
        if token[4]:
            return r"\\"
        number = groups.get(token[2] or token[3])
        if number is None:
            return ""
        if number > 9:
            raise PromqlError("label_replace() takes no group after the ninth")
        return rf"\{number}"

    return _REFERENCE.sub(turned, template)
