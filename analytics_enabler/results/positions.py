"""Where to resume following several streams, as one opaque text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mistbow.errors import InvalidRequestError

_PART = r"[a-z0-9.-]{1,100}(?:=[0-9]{1,18}|@[0-9]{1,14})"
_TEXT = re.compile(rf"(?:{_PART}(?:,(?!$)|$))*")


@dataclass(frozen=True, slots=True)
class Since:
    """Where a time (ms since the epoch) begins in a stream that could not be asked for a number."""

    time: int


Start = int | Since
"""Where to go on in a stream."""


def text_of(starts: Mapping[str, Start]) -> str:
    """Return where to go on, by the id of the group, as text.

    >>> text_of({"all.fair": 12, "site-x.fair": Since(1795278275000)})
    'all.fair=12,site-x.fair@1795278275000'
    """
    return ",".join(f"{group}{_told(start)}" for group, start in sorted(starts.items()))


def starts_of(text: str) -> dict[str, Start]:
    """Return what ``text_of`` told; raises ``InvalidRequestError`` for another text."""
    if not _TEXT.fullmatch(text):
        raise InvalidRequestError(
            f"Last-Event-ID is {text[:50]!r}", hint="Send the id of the last event received."
        )
    return dict(_start_of(part) for part in text.split(",") if part)


def _told(start: Start) -> str:
    return f"@{start.time}" if isinstance(start, Since) else f"={start}"


def _start_of(part: str) -> tuple[str, Start]:
    group, at, time = part.partition("@")
    if at:
        return group, Since(int(time))
    group, _, number = part.partition("=")
    return group, int(number)
