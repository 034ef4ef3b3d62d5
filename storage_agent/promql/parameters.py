"""The parameters of Prometheus' HTTP API, from the URL or a posted form."""

import math
from collections import Counter
from datetime import datetime
from urllib.parse import parse_qsl

from fastapi import Request

from mistbow.client.fields import MAX_TIMESTAMP_MS
from mistbow.http.parameters import LISTS
from storage_agent.http.decode import decode_beside
from storage_agent.promql.errors import bad_data
from storage_agent.promql.matchers import Selector
from storage_agent.promql.parse import parse, parse_duration_ms, selector_of

_MAX_PARAMETERS = 1000

_MAX_FORM_BYTES = 2**20
"""The maximum size (bytes) of a form: enough for 1,000 parameters of 1 KiB."""


class Parameters:
    """The parameters of a request; methods raise ``PromqlError`` for invalid parameters."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    def all(self, name: str) -> list[str]:
        """Return all values of a parameter; an absent parameter has no values."""
        return [value for key, value in self._pairs if key == name]

    def text(self, name: str) -> str:
        """Return the first value of a required parameter."""
        value = next(iter(self.all(name)), "")
        if not value:
            raise bad_data(f'invalid parameter "{name}": the parameter is missing')
        return value

    def time(self, name: str, default: int | None = None) -> int:
        """Return the value of a time parameter (seconds since 1970, or RFC 3339) in milliseconds.

        ``default``: the time (ms) if the parameter is absent; None: the parameter is required.
        """
        if default is not None and not any(self.all(name)):
            return default
        text = self.text(name)
        found = _seconds(text)
        if found is None:
            try:
                found = datetime.fromisoformat(text).timestamp()
            except (ValueError, OverflowError):
                found = math.nan
        if not 0 <= found * 1000 <= MAX_TIMESTAMP_MS:
            raise bad_data(
                f'invalid parameter "{name}": cannot parse {text!r} to a timestamp: give seconds '
                "since 1970, or a time like 2026-11-21T10:00:00Z"
            )
        return round(found * 1000)

    def duration(self, name: str) -> int:
        """Return the value of a required parameter, a positive duration, in milliseconds."""
        text = self.text(name)
        seconds = _seconds(text)
        milliseconds = parse_duration_ms(text) if seconds is None else seconds * 1000
        if name == "step" and milliseconds <= 0:
            raise bad_data(
                'invalid parameter "step": zero or negative query resolution step widths are '
                "not accepted. Try a positive integer"
            )
        if not 1 <= milliseconds <= MAX_TIMESTAMP_MS:
            raise bad_data(
                f'invalid parameter "{name}": {text!r} is not a duration: give at least 1 ms and '
                f"at most {MAX_TIMESTAMP_MS // 1000} s, such as 15 or 1m"
            )
        return round(milliseconds)

    def count(self, name: str) -> int | None:
        """Return the value of a parameter that limits a number of items.

        None: the parameter is absent or 0, which means no limit.
        """
        given = next(iter(self.all(name)), "0")
        if not (given.isascii() and given.isdigit() and len(given) < 10):
            raise bad_data(
                f'invalid parameter "{name}": {given!r} is not a number of at most 9 digits'
            )
        return int(given) or None

    def selectors(self, name: str) -> list[Selector]:
        """Return the values of a parameter, parsed as series selectors."""
        return [_selector(name, text) for text in self.all(name)]


async def read_parameters(request: Request) -> Parameters:
    """Return the parameters of a request.

    The values from a posted form precede the values from the URL.
    """
    form: list[tuple[str, str]] = []
    if request.method == "POST":
        body = await request.body()
        if len(body) > _MAX_FORM_BYTES:
            raise bad_data(
                f"the form has {len(body)} bytes, and at most {_MAX_FORM_BYTES} are allowed"
            )
        if body.lstrip().startswith((b"{", b"[")):
            raise bad_data(
                "the body is JSON: send parameters as a form, as curl --data-urlencode does, or in "
                "the URL"
            )
        form = await decode_beside(len(body), lambda: _pairs(body.decode(errors="replace")))
        _check_form(form)
    return Parameters([*form, *_pairs(request.url.query)])


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
    except ValueError as error:
        raise bad_data(f"the request has more than {_MAX_PARAMETERS} parameters") from error


def _check_form(form: list[tuple[str, str]]) -> None:
    """Raise ``PromqlError`` if a form repeats a parameter, or has one that only a URL may have."""
    for name, count in Counter(name for name, _ in form).items():
        if name == "site":
            raise bad_data("site: send this parameter in the URL, as in /api/v1/query?site=…")
        if count > 1 and name not in LISTS:
            raise bad_data(f"{name[:40]}: the form has this parameter more than once")


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else math.nan


def _selector(name: str, text: str) -> Selector:
    node = parse(text, name)
    if type(node).__name__ != "VectorSelector":
        raise bad_data(f'invalid parameter "{name}": {text!r} is not a series selector')
    return selector_of(node)  # type: ignore[arg-type]
