"""Parameters of Prometheus' HTTP API: in the address, or in a form that was posted."""

import math
from datetime import datetime
from urllib.parse import parse_qsl

from fastapi import Request

from storage_agent.monitoring.bodies import LATEST_MS
from storage_agent.promql.matching import Selector
from storage_agent.promql.parsing import parse, parse_duration_ms, selector_of
from storage_agent.promql.problems import bad_data

_MOST_PARAMETERS = 1000


class Parameters:
    """The parameters of one request; raises ``PromqlError`` for one that is missing or wrong."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    def all(self, name: str) -> list[str]:
        """Return every value of a parameter."""
        return [value for key, value in self._pairs if key == name]

    def text(self, name: str) -> str:
        """Return a parameter that must be there."""
        value = next(iter(self.all(name)), "")
        if not value:
            raise bad_data(f'invalid parameter "{name}": it is missing')
        return value

    def time(self, name: str, default: int | None = None) -> int:
        """Return a time in milliseconds; it is given in seconds, or in the form of RFC 3339."""
        if default is not None and not any(self.all(name)):
            return default
        text = self.text(name)
        found = _seconds(text)
        if found is None:
            try:
                found = datetime.fromisoformat(text).timestamp()
            except (ValueError, OverflowError):
                found = math.nan
        if not 0 <= found * 1000 <= LATEST_MS:
            raise bad_data(
                f'invalid parameter "{name}": cannot parse {text!r} to a timestamp: give seconds '
                "since 1970, or a time like 2026-11-21T10:00:00Z"
            )
        return round(found * 1000)

    def duration(self, name: str) -> int:
        """Return a duration in milliseconds, more than none."""
        text = self.text(name)
        seconds = _seconds(text)
        milliseconds = parse_duration_ms(text) if seconds is None else seconds * 1000
        if not 1 <= milliseconds <= LATEST_MS:
            raise bad_data(
                f'invalid parameter "{name}": zero or negative query resolution step widths are '
                "not accepted. Try a positive integer"
            )
        return round(milliseconds)

    def count(self, name: str) -> int | None:
        """Return a number of items, if it is given; 0 asks for all, as if it were not."""
        given = next(iter(self.all(name)), "0")
        if not (given.isascii() and given.isdigit() and len(given) < 10):
            raise bad_data(f'invalid parameter "{name}": {given!r} is no number')
        return int(given) or None

    def selectors(self, name: str) -> list[Selector]:
        """Return the selectors that a parameter's values are."""
        return [_selector(name, text) for text in self.all(name)]


async def read_parameters(request: Request) -> Parameters:
    """Return the parameters of a request; those of a form come first."""
    texts = [request.url.query]
    if request.method == "POST":
        body = await request.body()
        texts.insert(0, body.decode(errors="replace"))
    try:
        pairs = [
            pair
            for text in texts
            for pair in parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
        ]
    except ValueError as error:
        raise bad_data(f"more than {_MOST_PARAMETERS} parameters") from error
    return Parameters(pairs)


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else math.nan


def _selector(name: str, text: str) -> Selector:
    node = parse(text)
    if type(node).__name__ != "VectorSelector":
        raise bad_data(f'invalid parameter "{name}": {text!r} is no series selector')
    return selector_of(node)  # type: ignore[arg-type]
