"""Where to resume following several streams, as one opaque text."""

import re
from collections.abc import Mapping

from mistbow.errors import InvalidRequestError

_TEXT = re.compile(r"(?:[a-z0-9.-]{1,100}=[0-9]{1,18}(?:,(?!$)|$))*")


def text_of(positions: Mapping[str, int]) -> str:
    """Return positions, by the id of the group, as text.

    >>> text_of({"all.fair": 12, "site-x.fair": 7})
    'all.fair=12,site-x.fair=7'
    """
    return ",".join(f"{group}={number}" for group, number in sorted(positions.items()))


def positions_of(text: str) -> dict[str, int]:
    """Return the positions of a text; raises ``InvalidRequestError`` for one that is none."""
    if not _TEXT.fullmatch(text):
        raise InvalidRequestError(
            f"Last-Event-ID is {text[:50]!r}", hint="Send the id of the last event received."
        )
    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    return {group: int(number) for group, _, number in pairs}
