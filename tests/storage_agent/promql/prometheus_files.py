"""Reader of the test files of Prometheus 2: commands that load series, and queries with answers.

``clear`` drops all series. ``load STEP`` is followed by series, one series per line, with values
that begin at time 0 and are STEP apart. ``eval instant at TIME QUERY`` is followed by the rows of
the answer. ``eval_fail`` expects an error; ``eval_ordered`` expects the rows in the given order.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mistbow.streams.json_numbers import STALE
from storage_agent.promql.labels import NAME, Labels, make_labels
from storage_agent.promql.parse import parse_duration_ms

_SERIES = re.compile(r"\s*([\w:]*)\s*(?:\{(.*)\})?\s*(.*)")
_LABEL = re.compile(r"""\s*(\w+)\s*=\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)\s*,?""")
_EVAL = re.compile(r"eval(?:_(fail|ordered))?\s+instant\s+at\s+(\S+)\s+(.+)")
_NUMBER = r"[-+]?(?:Inf|NaN|(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)"
_REPEATED = re.compile(rf"({_NUMBER}|_)(?:([-+])({_NUMBER}))?x(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A series: its labels, the times (ms) of its samples, and their values."""

    labels: Labels
    ts: list[int]
    values: list[float]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A query at a time (ms) over ``series``, and the expected answer.

    ``rows``: (labels, value) of each expected row; the labels of a scalar are None.
    """

    place: str
    query: str
    time: int
    fails: bool
    ordered: bool
    series: list[Loaded]
    rows: list[tuple[Labels | None, float]] = field(default_factory=list)


def evaluations(path: Path) -> Iterator[Evaluation]:
    """Yield the evaluations of a file."""
    lines = [line.strip() for line in path.read_text().splitlines()]
    lines = ["" if line.startswith("#") else line for line in lines]
    series: list[Loaded] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if line == "clear":
            series = []
        elif line.startswith("load"):
            step = parse_duration_ms(line.split()[1])
            while number < len(lines) and lines[number]:
                series = [*series, _loaded(lines[number], step)]
                number += 1
        elif found := _EVAL.fullmatch(line):
            kind, at, query = found.groups()
            evaluation = Evaluation(
                f"{path.name}:{number}",
                query,
                _time(at),
                fails=kind == "fail",
                ordered=kind == "ordered",
                series=series,
            )
            while number < len(lines) and lines[number]:
                evaluation.rows.append(_row(lines[number]))
                number += 1
            yield evaluation
        elif line:
            raise ValueError(f"{path.name}:{number}: unknown command {line!r}")


def _time(text: str) -> int:
    return 0 if re.fullmatch(r"0\w*", text) else parse_duration_ms(text)


def _loaded(line: str, step: int) -> Loaded:
    labels, rest = _described(line)
    values = [value for text in rest.split() for value in _sequence(text)]
    given = [(n * step, value) for n, value in enumerate(values) if value is not None]
    return Loaded(labels, [ts for ts, _ in given], [value for _, value in given])


def _row(line: str) -> tuple[Labels | None, float]:
    try:
        return None, _number(line)
    except ValueError:
        labels, rest = _described(line)
        return labels, _number(rest)


def _described(line: str) -> tuple[Labels, str]:
    found = _SERIES.fullmatch(line)
    if found is None:
        raise ValueError(f"not a series: {line!r}")
    name, inside, rest = found.groups()
    pairs = {label: _unquote(text) for label, text in _LABEL.findall(inside or "")}
    return make_labels({**({NAME: name} if name else {}), **pairs}), rest


def _unquote(text: str) -> str:
    if text[0] == "`":
        return text[1:-1]
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text[1:-1])


def _sequence(text: str) -> list[float | None]:
    """Expand the notation of samples in a text; return their values (None: no sample).

    >>> _sequence("1+2x3"), _sequence("_x1"), _sequence("-3")
    ([1.0, 3.0, 5.0, 7.0], [None], [-3.0])
    """
    if text == "_":
        return [None]
    if found := _REPEATED.fullmatch(text):
        first, sign, by, times = found.groups()
        if first == "_":
            return [None] * int(times)
        delta = (_number(by) if sign == "+" else -_number(by)) if by else 0.0
        return [_number(first) + n * delta for n in range(int(times) + 1)]
    return [STALE if text == "stale" else _number(text)]


def _number(text: str) -> float:
    if re.fullmatch(r"[-+]?0x[0-9a-f]+", text.lower()):
        return float(int(text, 16))
    if re.fullmatch(_NUMBER, text, re.IGNORECASE) is None:
        raise ValueError(f"not a number: {text!r}")
    return float(text)


def almost_equal(left: float, right: float) -> bool:
    """Return whether two values are equal to six digits, by the rule of Prometheus' own tests."""
    if left == right or (math.isnan(left) and math.isnan(right)):
        return True
    difference = abs(left - right)
    least_normal = 2.0**-1022
    if left == 0 or right == 0 or difference < least_normal:
        return difference < 1e-6 * least_normal
    return difference / (abs(left) + abs(right)) < 1e-6
