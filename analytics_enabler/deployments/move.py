"""The move of a deployment to a larger domain, stored with the deployment."""

import msgspec

RETRY_MS = 600_000
"""The time (ms) after which a refused attempt is repeated, even without a known change.

The reason of a refusal may be invisible to this enabler, for example a limit of the other enabler.
"""

MAX_ABSENCE_MS = 3_600_000
"""The time (ms) without a reachable enabler of the larger domain until a move is abandoned."""

MAX_UNANNOUNCED_MS = 600_000
"""The same time (ms) if no site of the fabric announces the larger domain any more."""


class DomainAbsence(msgspec.Struct, frozen=True, kw_only=True):
    """The absence of a larger domain: none of its enablers is reachable since ``since`` (ms).

    ``is_announced``: whether a site, which is unreachable, has announced the domain.
    """

    since: int
    is_announced: bool

    @property
    def ends_at(self) -> int:
        """The time (ms) at which moves to the domain are abandoned."""
        return self.since + (MAX_ABSENCE_MS if self.is_announced else MAX_UNANNOUNCED_MS)


class MoveRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """The refusal of a deployment by the enabler of a larger domain at the time ``at`` (ms).

    ``site``, ``generation``, ``epoch``: the site and the lease of this enabler. ``is_absent``:
    whether this enabler surely lacks the deployment. An earlier attempt without an answer may have
    moved it.
    """

    at: int
    why: str
    site: str
    generation: int
    epoch: int
    is_absent: bool

    def is_outdated(self, updated_at: int, rank: tuple[int, int, str], now: int) -> bool:
        """Return whether the attempt is repeated, because it may succeed now.

        ``updated_at``: the time (ms) of the deployment's last change. ``rank``: the generation, the
        epoch and the site of the enabler that has the larger domain now.
        """
        is_changed = updated_at > self.at or rank != (self.generation, self.epoch, self.site)
        return is_changed or now - self.at >= RETRY_MS


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """The move of a deployment to a larger domain, which began at the time ``at`` (ms).

    The move is stored before the other enabler receives the deployment, and the deployment is
    deleted here afterwards. So a restarted enabler, or a standby that takes over, completes it.

    ``changed_at``: the time (ms) of the last change of the move. ``refusal``: the refusal of the
    last attempt; None: no attempt was refused. ``is_ended``: the deployment stays in its domain.
    ``absence``: of the larger domain; None: it is reachable. A move that ended with an absence was
    abandoned.
    """

    domain: str
    reason: str
    at: int
    changed_at: int
    refusal: MoveRefusal | None = None
    is_ended: bool = False
    absence: DomainAbsence | None = None

    @property
    def is_unsettled(self) -> bool:
        """Whether the larger domain may have the deployment too.

        It may have adopted the deployment in an attempt without an answer.
        """
        if not self.is_ended:
            return True
        is_absent = self.refusal is not None and self.refusal.is_absent
        return self.absence is not None and not is_absent
