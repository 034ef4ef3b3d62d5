"""The limit on the connections of a service: the longest idle ones are closed for new ones."""

import heapq
import itertools
from typing import Protocol

_CLOSED_AT_ONCE = 1 / 16
"""The share of the connections that are closed when there are too many.

Each search for the oldest ones costs time, so one search serves many new connections.
"""

_numbers = itertools.count(1)


def next_wait() -> int:
    """Return the number of a wait for a client; a later wait has a greater number."""
    return next(_numbers)


class CountedConnection(Protocol):
    """A connection that counts towards the limit, and can be closed while its client is awaited.

    ``waits_since``: the number of its latest wait; see ``next_wait``.
    """

    waits_since: int

    def is_waiting(self) -> bool:
        """Return whether the service waits for the client, and answers nothing meanwhile."""

    def close_now(self) -> None:
        """Close the connection, also if the client does not read the rest of an answer."""


def make_room(connections: set[CountedConnection], limit: int) -> None:
    """Close connections that have waited longest, if there are more than ``limit``.

    ``connections``: all of the service; closed ones are removed at once, since the event loop
    removes them later.
    """
    if len(connections) <= limit:
        return
    waiting = [each for each in connections if each.is_waiting()]
    count = max(1, int(len(connections) * _CLOSED_AT_ONCE))
    for each in heapq.nsmallest(count, waiting, key=lambda each: each.waits_since):
        each.close_now()
        connections.discard(each)
