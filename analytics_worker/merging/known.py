"""The decisions that this process has read: each is read once, whoever asks."""

import threading
from dataclasses import dataclass, field

from analytics_worker.merging.decisions import Presence, from_rows
from mistbow.client.agent import AgentClient
from mistbow.plan.fragments import Place


@dataclass(slots=True)
class _Known:
    presence: Presence = field(default_factory=Presence)
    next: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


_known: dict[tuple[str, Place], _Known] = {}


def presence(agent: AgentClient, decisions: Place) -> Presence:
    """Return who is missing when, by all decisions up to now."""
    known = _known.setdefault((agent.url, decisions), _Known())
    with known.lock:
        rows = agent.at(decisions.site).read(decisions.stream, known.next)
        known.presence.learn(from_rows(rows.table))
        known.next = rows.position.next
        return Presence(list(known.presence.gaps))
