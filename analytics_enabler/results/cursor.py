"""The cursor of a reader of results: where to resume each stream of results, as one string."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mistbow.errors import InvalidRequestError

_START = r"[a-z0-9.-]{1,100}(?:=[0-9]{1,18}|@[0-9]{1,14})"
_CURSOR = re.compile(rf"(?:{_START}(?:,(?!$)|$))*")


@dataclass(frozen=True, slots=True)
class Since:
    """The time (ms since the epoch) at which to resume a stream of an unreachable site.

    The position in such a stream is unknown until the site is reachable.
    """

    time: int


Start = int | Since
"""The place at which to resume a stream: a position or a time."""


def encode_cursor(starts: Mapping[str, Start]) -> str:
    """Return the cursor for ``starts``: group id -> resume position or time.

    >>> encode_cursor({"all.fair": 12, "site-x.fair": Since(1795278275000)})
    'all.fair=12,site-x.fair@1795278275000'
    """
    return ",".join(f"{group}{_encode(start)}" for group, start in sorted(starts.items()))


def decode_cursor(text: str) -> dict[str, Start]:
    """Return group id -> resume position or time, from a cursor.

    Raises ``InvalidRequestError`` if the text is not a cursor.
    """
    if not _CURSOR.fullmatch(text):
        raise InvalidRequestError(
            f"Last-Event-ID {text[:50]!r} is not the id of an event",
            hint="Send the id of the last event received.",
        )
    return dict(_decode(part) for part in text.split(",") if part)


def _encode(start: Start) -> str:
    return f"@{start.time}" if isinstance(start, Since) else f"={start}"


def _decode(part: str) -> tuple[str, Start]:
    group, at, time = part.partition("@")
    if at:
        return group, Since(int(time))
    group, _, position = part.partition("=")
    return group, int(position)
