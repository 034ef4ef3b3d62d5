"""How stable this site and the others are: from restarts and lost links, fading by the hour."""

from dataclasses import dataclass, field

from mistbow.clock import Clock
from storage_agent.fabric.member import Member
from storage_agent.replication.decaying import Decaying
from storage_agent.replication.told import HEALTH_KEY, Health, health_of

HALF_LIFE_MS = 3_600_000
RESTART = 1.0
LOSS = 0.5
"""How much one restart and one lost link add to a site's instability."""

_RISE = 1.01
"""By so much the usual latency grows each time that the link is slower than that."""

_CLEAR_PART = 0.2
_CLEAR = 0.1


@dataclass(slots=True)
class _Seen:
    """What this agent saw of another site: how much of what is counted was taken note of."""

    restarts: int = 0
    losses: int = 0
    instability: Decaying = field(default_factory=Decaying)
    lost: Decaying = field(default_factory=Decaying)
    usual_ms: float | None = None


class VitalSigns:
    """Takes note of restarts and losses, of this site and as it sees the others."""

    def __init__(self, member: Member, clock: Clock) -> None:
        self._member = member
        self._clock = clock
        self._own = Decaying()
        self._seen: dict[str, _Seen] = {}
        self._told: Health | None = None

    def open(self) -> None:
        """Recover what was counted; that this agent starts again counts too."""
        before = health_of(self._member.told_by(self._member.site))
        if before is not None:
            counted = Decaying(before.instability, before.at)
            self._own = counted.plus(RESTART, self._clock(), HALF_LIFE_MS)

    def look(self) -> None:
        """Take note of what happened since the last look."""
        now = self._clock()
        known = list(self._member.neighbours)
        for each in known:
            seen = self._seen.setdefault(each.site, _Seen(each.restarts, 0))
            restarts, losses = each.restarts - seen.restarts, each.losses - seen.losses
            seen.restarts, seen.losses = each.restarts, each.losses
            if restarts or losses:
                worse = restarts * RESTART + losses * LOSS
                seen.instability = seen.instability.plus(worse, now, HALF_LIFE_MS)
                seen.lost = seen.lost.plus(losses, now, HALF_LIFE_MS)
                # Whose fault a lost link is cannot be told; who loses all of them is at fault.
                self._own = self._own.plus(LOSS * losses / len(known), now, HALF_LIFE_MS)
            if (latency := each.latency_ms) is not None:
                usual = latency if seen.usual_ms is None else seen.usual_ms * _RISE
                seen.usual_ms = min(usual, latency)

    def tell(self, room: int, load: float) -> None:
        """Tell others how this site is, if that is clearly different from what was told."""
        now = self._clock()
        health = Health(instability=round(self.own(now), 3), at=now, room=room, load=round(load, 1))
        if self._told is None or _differs(self._told, health):
            self._told = health
            self._member.tell(HEALTH_KEY, health)

    def own(self, now: int) -> float:
        """Return this site's instability."""
        return self._own.now(now, HALF_LIFE_MS)

    def of(self, site: str, now: int) -> float:
        """Return another site's instability: what it tells of itself, or what is seen of it."""
        told = health_of(self._member.told_by(site))
        seen = self._seen.get(site, _Seen()).instability.now(now, HALF_LIFE_MS)
        if told is None:
            return seen
        return max(seen, Decaying(told.instability, told.at).now(now, HALF_LIFE_MS))

    def losses(self, site: str, now: int) -> float:
        """Return how often the link to a site was lost lately."""
        return self._seen.get(site, _Seen()).lost.now(now, HALF_LIFE_MS)

    def usual_ms(self, site: str) -> float | None:
        """Return the latency of the link to a site when it is not congested."""
        return self._seen.get(site, _Seen()).usual_ms


def stability(instability: float) -> float:
    """Return a site's stability, from 0 to 1.

    >>> stability(0), stability(1), stability(3)
    (1.0, 0.5, 0.25)
    """
    return 1 / (1 + instability)


def _differs(told: Health, now: Health) -> bool:
    faded = Decaying(told.instability, told.at).now(now.at, HALF_LIFE_MS)
    return (
        abs(faded - now.instability) > _CLEAR
        or abs(told.room - now.room) > _CLEAR_PART * told.room
        or abs(told.load - now.load) > max(1.0, _CLEAR_PART * told.load)
    )
