"""The cursor of a reader of results: where to resume each stream of results, as one string."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from analytics_enabler.groups import Group
from mistbow.client.fields import MAX_TIMESTAMP_MS
from mistbow.errors import InvalidRequestError
from mistbow.site_names import MAX_SITE_NAME
from mistbow.streams.wire import Position

_SITE = rf"[a-z0-9.-]{{1,{MAX_SITE_NAME}}}"
_START = r"[a-z0-9.-]{1,100}(?:=[0-9]{1,19}(?:@[0-9]{1,15})?|[@~][0-9]{1,15})"
_CURSOR = re.compile(rf"(?:({_SITE})/)?((?:{_START}(?:,(?!$)|$))*)")


@dataclass(frozen=True, slots=True)
class Since:
    """The time (ms since the epoch) at which to resume a stream with an unknown position.

    The position is unknown while the site of the stream is unreachable, and after an enabler at
    another site has taken over. ``is_recomputed``: whether the stream of the new enabler also has
    the results up to this time, which the former enabler has sent.
    """

    time: int
    is_recomputed: bool = False


Start = Position | Since
"""Where a stream resumes: a position with its frontier, or a time."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where to resume: ``starts``: group id -> resume position or time.

    ``site``: the site of the enabler that sent the cursor, which stores the streams of the groups
    without a scope; empty: unknown.

    >>> starts = {"all.fair": Position(12, 1795278275000), "site-x.fair": Since(1795278275000)}
    >>> str(Cursor("cloud", starts))
    'cloud/all.fair=12@1795278275000,site-x.fair@1795278275000'
    """

    site: str
    starts: Mapping[str, Start]

    def __str__(self) -> str:
        starts = ",".join(
            f"{group}{_encode(start)}" for group, start in sorted(self.starts.items())
        )
        return f"{self.site}/{starts}" if self.site else starts

    def starts_at(self, site: str, groups: Iterable[Group]) -> dict[str, Start]:
        """Return group id -> where an enabler at ``site`` resumes.

        Positions in the streams of another site are replaced by their frontiers.
        """
        if "" in (site, self.site) or site == self.site:
            return dict(self.starts)
        stored_elsewhere = {group.id for group in groups if group.scope is None}
        return {
            group: Since(start.frontier, is_recomputed=True)
            if group in stored_elsewhere and isinstance(start, Position)
            else start
            for group, start in self.starts.items()
        }


def decode_cursor(text: str) -> Cursor:
    """Return the cursor of a text.

    Raises ``InvalidRequestError`` if the text is not a cursor.
    """
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise InvalidRequestError(
            f"Last-Event-ID {text[:50]!r} is not the id of an event",
            hint="Send the id of the last event received.",
        )
    site, starts = found.groups()
    return Cursor(site or "", dict(_decode(part) for part in starts.split(",") if part))


def _encode(start: Start) -> str:
    if isinstance(start, Since):
        return f"{'~' if start.is_recomputed else '@'}{start.time}"
    return f"={start.next}@{min(max(start.frontier, 0), MAX_TIMESTAMP_MS)}"


def _decode(part: str) -> tuple[str, Start]:
    group, is_recomputed, time = part.partition("~")
    if is_recomputed:
        return group, Since(int(time), is_recomputed=True)
    name, _, time = part.partition("@")
    group, is_position, position = name.partition("=")
    if not is_position:
        return group, Since(int(time))
    # Earlier versions sent positions without a time.
    return group, Position(int(position), int(time or 0))
