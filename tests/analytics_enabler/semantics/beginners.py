"""Golden answers to texts that users of other query languages write.

A file in ``tests/errors_of_beginners`` contains texts; the answers to a text are indented below it.
After an intended change, run ``python -m tests.analytics_enabler.semantics.beginners``, and review
the diff.
"""

from collections.abc import Iterator
from pathlib import Path

from analytics_enabler.semantics import check
from grammar import Diagnostic

FOLDER = Path(__file__).parents[2] / "errors_of_beginners"
_METRICS = frozenset({"x", "y", "delay", "heat"})
_BUSES = [
    {"entityID": f"bus-{n}", "region": region, "line": f"{n % 5}"}
    for region in ("west", "east")
    for n in range(10)
]
"""The attributes of the points of `delay`: ten buses, which were in both regions."""


def texts_of(content: str) -> list[str]:
    """Return the texts of a file."""
    return [line for line in content.splitlines() if line and not line.startswith(" ")]


def answers_to(text: str) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of a text; without COMPUTE, the text follows ``q = COMPUTE``."""
    whole = text if text.startswith("q ") else f"q = COMPUTE {text}"
    points, units = {"delay": _BUSES}, {"delay": "seconds", "heat": "°C"}
    return check(whole, _METRICS, points=points, units=units).problems


def golden(content: str) -> str:
    """Return the content of a file with the present answers."""
    return "".join(f"{line}\n" for text in texts_of(content) for line in _lines(text))


def _lines(text: str) -> Iterator[str]:
    yield text
    for answer in answers_to(text):
        yield f"    {answer.severity}: {answer.message}"
        yield f"    hint: {answer.hint}"


if __name__ == "__main__":
    for file in sorted(FOLDER.glob("*.txt")):
        file.write_text(golden(file.read_text(encoding="utf-8")), encoding="utf-8")
