"""The stored steps of the moves of deployments to larger domains."""

import msgspec

from analytics_enabler.decision_log import ENABLER, DecisionKind, DecisionLog
from analytics_enabler.deployments.changes import named
from analytics_enabler.deployments.model import (
    Deployment,
    DeploymentDeleted,
    DeploymentSaved,
    Event,
    time_of_change,
)
from analytics_enabler.deployments.move import DomainAbsence, Move, MoveRefusal
from analytics_enabler.deployments.service import Deployments
from mistbow.clock import Clock


class DeploymentMoves:
    """Stores each step of a move before the next step; each step can be repeated.

    ::

        begin    the move is stored with the deployment
        (adopt)  the enabler of the larger domain has the deployment
        refuse   this enabler has refused the deployment, which remains in its domain meanwhile
        miss     no enabler of the larger domain is reachable, or one is reachable again
        stay     the deployment remains in its domain
        settle   the larger domain lacks the deployment that remains in its domain
        release  the deployment is deleted here
    """

    def __init__(self, deployments: Deployments, decisions: DecisionLog, clock: Clock) -> None:
        self._deployments = deployments
        self._decisions = decisions
        self._clock = clock

    async def begin(self, deployment: Deployment, domain: str, reason: str) -> None:
        """Store that a deployment moves to a larger domain; nothing changes if it moves already."""
        now = self._clock()
        changed_at = now if deployment.move is None else self._after(deployment.move)
        move = Move(domain=domain, reason=reason, at=now, changed_at=changed_at)

        def begun(present: Deployment | None) -> Event | None:
            if present is None or present.pending_move is not None:
                return None
            return _saved(present, move)

        if await self._deployments.change(deployment.id, begun):
            what = f"is moving to the domain {domain}"
            self._record(DecisionKind.DEPLOYMENT_MOVING, deployment, what, reason)

    async def refuse(self, deployment: Deployment, move: Move, refusal: MoveRefusal) -> None:
        """Store that the enabler of the larger domain has refused a deployment.

        A repeated refusal for the same reason is no new decision.
        """
        refused = msgspec.structs.replace(move, refusal=refusal, changed_at=self._after(move))
        former = move.refusal
        is_new = former is None or former.why != refusal.why or deployment.updated_at > former.at
        if await self._store(deployment, move, refused) and is_new:
            what = f"is refused by the domain {move.domain}"
            self._record(DecisionKind.DEPLOYMENT_REFUSED, deployment, what, refusal.why)

    async def miss(self, deployment: Deployment, move: Move, absence: DomainAbsence | None) -> None:
        """Store since when the larger domain has no reachable enabler; None: it has one again."""
        missed = msgspec.structs.replace(move, absence=absence, changed_at=self._after(move))
        await self._store(deployment, move, missed)

    async def settle(self, deployment: Deployment, move: Move) -> None:
        """Store that the larger domain lacks a deployment whose move was abandoned."""
        settled = msgspec.structs.replace(move, absence=None, changed_at=self._after(move))
        await self._store(deployment, move, settled)

    async def stay(self, deployment: Deployment, move: Move, why: str) -> None:
        """Store that a deployment remains in its domain."""
        ended = msgspec.structs.replace(move, is_ended=True, changed_at=self._after(move))
        if await self._store(deployment, move, ended):
            what = f"stays in the domain {deployment.domain}"
            self._record(DecisionKind.DEPLOYMENT_STAYED, deployment, what, why)

    async def release(self, adopted: Deployment, move: Move) -> bool:
        """Delete a deployment here that the larger domain has adopted; return whether it did.

        A deployment that has changed since its adoption remains, so that its change moves too.
        """

        def deleted(present: Deployment | None) -> Event | None:
            if present != adopted:
                return None
            now = time_of_change(self._clock(), adopted.updated_at)
            return DeploymentDeleted(now, moved_to=move.domain)

        if not await self._deployments.change(adopted.id, deleted):
            return False
        what = f"is passed on to the domain {move.domain}"
        self._record(DecisionKind.DEPLOYMENT_DELETED, adopted, what, move.reason)
        return True

    async def confirm_deletion(self, deployment_id: str, deletion: DeploymentDeleted) -> None:
        """Store that the other domain of a moving deployment has deleted it too.

        Nothing changes if the deployment was restored and deleted again meanwhile.
        """

        def confirmed(present: Deployment | None) -> Event | None:
            if present is not None or self._deployments.deletions.find(deployment_id) != deletion:
                return None
            return msgspec.structs.replace(deletion, also_in=None)

        await self._deployments.change(deployment_id, confirmed)

    async def _store(self, deployment: Deployment, former: Move, move: Move) -> bool:
        """Store a changed move of a deployment, unless another change came first."""

        def changed(present: Deployment | None) -> Event | None:
            if present is None or present.move != former:
                return None
            return _saved(present, move)

        return await self._deployments.change(deployment.id, changed)

    def _after(self, former: Move) -> int:
        """Return the time (ms) of a change that replaces the move ``former``."""
        return time_of_change(self._clock(), former.changed_at)

    def _record(self, kind: DecisionKind, deployment: Deployment, what: str, why: str) -> None:
        what = f"{named(deployment)} {what}"
        self._decisions.record(kind, deployment.id, what=what, why=why, by=ENABLER)


def _saved(deployment: Deployment, move: Move) -> DeploymentSaved:
    return DeploymentSaved(msgspec.structs.replace(deployment, move=move))
