"""The events of a simulated fog: steps of the environment, failures and repairs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

STEP_S = 1800.0
"""The interval (s) at which prices, the sun and the attachments of mobile nodes change."""

_MEAN_UPTIME_S = 30 * 86_400.0
_MEAN_REPAIR_S = 3600.0


@dataclass(frozen=True, slots=True, order=True)
class Event:
    """An event at a time (s); ``node``: the node that fails or is repaired, else empty."""

    at_s: float
    kind: Literal["failure", "repair", "step"]
    node: str = ""


def timeline(nodes: Sequence[str], duration_s: float, rng: np.random.Generator) -> list[Event]:
    """Return the events from 0 to ``duration_s`` (exclusive) in the order of time.

    The times between failures of a node, and of its repair, are exponentially distributed.
    """
    events = [Event(at, "step") for at in np.arange(0.0, duration_s, STEP_S).tolist()]
    for node in nodes:
        at = float(rng.exponential(_MEAN_UPTIME_S))
        while at < duration_s:
            events.append(Event(at, "failure", node))
            at += float(rng.exponential(_MEAN_REPAIR_S))
            events.append(Event(at, "repair", node))
            at += float(rng.exponential(_MEAN_UPTIME_S))
    return sorted(event for event in events if event.at_s < duration_s)
