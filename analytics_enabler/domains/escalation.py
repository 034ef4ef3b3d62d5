"""Deployments that the workers of a domain cannot run, and that a larger domain takes over."""

import msgspec

from analytics_enabler.deployments.model import Deployment, DeploymentDeleted
from analytics_enabler.deployments.move import RETRY_MS, DomainAbsence, Move, MoveRefusal
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.domains.directory import DomainDirectory, KnownEnabler
from analytics_enabler.domains.moves import DeploymentMoves
from analytics_enabler.domains.proxy import DomainProxy, EnablerRefusedError
from analytics_enabler.domains.role import RoleCell
from analytics_enabler.execution import ExecutionStatus
from analytics_enabler.onsets import Onsets
from mistbow.clock import Clock, time_words
from mistbow.errors import UnavailableError
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_INTERVAL_S = 5.0
PATIENCE_MS = 30_000
"""The time for which a task of a deployment has no worker before a larger domain takes it over."""


class Escalation:
    """Moves deployments that no worker of the domain can run to the next larger domain.

    The insights, and the times of their results, remain. A move that has begun is completed, also
    if a worker is back meanwhile: the larger domain may have the deployment already. A refused
    move is tried again once the deployment or the enabler of the larger domain has changed, or
    this enabler was away, and every ``RETRY_MS``.

    A move is abandoned if the larger domain has no reachable enabler for a long time. If an enabler
    of the larger domain returns, and has adopted the deployment meanwhile, the move is completed.
    """

    def __init__(
        self,
        directory: DomainDirectory,
        proxy: DomainProxy,
        deployments: Deployments,
        moves: DeploymentMoves,
        status: ExecutionStatus,
        role: RoleCell,
        clock: Clock,
    ) -> None:
        self._directory = directory
        self._proxy = proxy
        self._deployments = deployments
        self._moves = moves
        self._status = status
        self._role = role
        self._clock = clock
        self._refused_deletions: dict[str, tuple[KnownEnabler, int]] = {}
        """Deployment -> the enabler that refused to delete it, and when (ms)."""
        self._was_away: set[str] = set()
        """The deployments whose larger domain had no reachable enabler since its refusal."""
        self._absent = Onsets[str](clock)
        """The larger domains of moves that have no reachable enabler."""
        self._task = PeriodicTask(self._check, Schedule("escalation", _INTERVAL_S))

    async def run(self) -> None:
        """Check the deployments every few seconds, until cancelled."""
        await self._task.run()

    async def _check(self) -> None:
        if not self._role.is_active or not self._deployments.is_loaded:
            # Another enabler of the domain decides now.
            return
        ids = [deployment.id for deployment in self._deployments.all()]
        self._was_away.intersection_update(ids)
        self._note_absences()
        for deployment_id in ids:
            await self._resume(deployment_id)
            await self._begin(deployment_id)
            await self._proceed(deployment_id)
        pending = self._deployments.deletions.pending()
        refused = self._refused_deletions.items()
        self._refused_deletions = {id: each for id, each in refused if id in pending}
        for deployment_id, deletion in pending.items():
            await self._delete(deployment_id, deletion)

    def _note_absences(self) -> None:
        pending = [each.pending_move for each in self._deployments.all()]
        domains = {move.domain for move in pending if move is not None}
        self._absent.update(each for each in domains if self._directory.active(each) is None)

    async def _resume(self, deployment_id: str) -> None:
        """Begin an abandoned move again, if the larger domain has the deployment."""
        deployment = self._present(deployment_id)
        move = None if deployment is None else deployment.move
        if deployment is None or move is None or not (move.is_ended and move.is_unsettled):
            return
        to = self._directory.active(move.domain)
        has = None if to is None else await self._proxy.has(to, deployment_id)
        if has:
            reason = f"the domain {move.domain} had adopted it before its move was abandoned"
            await self._moves.begin(deployment, move.domain, reason)
        elif has is False:
            await self._moves.settle(deployment, move)

    async def _begin(self, deployment_id: str) -> None:
        """Begin the move of a deployment to a larger domain, if no worker can run it."""
        deployment = self._present(deployment_id)
        if deployment is None or deployment.pending_move is not None:
            return
        unplaced = self._status.unplaced(deployment)
        if unplaced is None or self._clock() - (unplaced.since or 0) < PATIENCE_MS:
            return
        larger = self._directory.larger()
        if larger is not None:
            await self._moves.begin(deployment, larger.enabler.domain, str(unplaced))

    async def _proceed(self, deployment_id: str) -> None:
        """Complete the move of a deployment that has begun, if the larger domain answers."""
        deployment = self._present(deployment_id)
        move = None if deployment is None else deployment.pending_move
        if deployment is None or move is None:
            return
        to = self._directory.active(move.domain)
        refusal = move.refusal
        if refusal is not None and refusal.is_absent and self._runs(deployment):
            await self._moves.stay(deployment, move, "its workers can run it again")
        elif to is None:
            if refusal is not None:
                self._was_away.add(deployment_id)
            await self._wait(deployment, move)
        elif move.absence is not None:
            # The next check goes on with the stored move.
            await self._moves.miss(deployment, move, None)
        elif refusal is None or self._has_changed(deployment, refusal, to):
            self._was_away.discard(deployment_id)
            await self._complete(deployment, move, to)

    async def _wait(self, deployment: Deployment, move: Move) -> None:
        """Wait for an enabler of the larger domain; give up the move after a long time."""
        now = self._clock()
        observed = self._absent.get(move.domain)
        if observed is None or now - observed < PATIENCE_MS:
            return
        since = observed if move.absence is None else move.absence.since
        is_announced = move.domain in self._directory.other_domains()
        absence = DomainAbsence(since=since, is_announced=is_announced)
        if absence != move.absence:
            await self._moves.miss(deployment, move, absence)
        elif now >= absence.ends_at:
            log.warning(
                "deployment_escalation_abandoned", deployment=deployment.id, domain=move.domain,
                since=since,
            )  # fmt: skip
            why = f"no enabler of the domain {move.domain} is reachable since {time_words(since)}"
            await self._moves.stay(deployment, move, why)

    async def _complete(self, deployment: Deployment, move: Move, to: KnownEnabler) -> None:
        # The larger domain may have deleted the deployment since the move began.
        updated_at = max(deployment.updated_at, move.at)
        try:
            await self._proxy.adopt(to, msgspec.structs.replace(deployment, updated_at=updated_at))
        except EnablerRefusedError as error:
            await self._refused(deployment, move, to, error)
            return
        except UnavailableError as error:
            # It may have the deployment: this move is tried again, and delays no other one.
            log.warning(
                "deployment_escalation_failed", deployment=deployment.id, domain=move.domain,
                error=error.message,
            )  # fmt: skip
            return
        if await self._moves.release(deployment, move):
            log.warning(
                "deployment_escalated", deployment=deployment.id, domain=move.domain,
                reason=move.reason,
            )  # fmt: skip

    async def _refused(
        self, deployment: Deployment, move: Move, to: KnownEnabler, error: EnablerRefusedError
    ) -> None:
        refusal = MoveRefusal(
            at=self._clock(),
            why=error.message,
            site=to.site,
            generation=to.enabler.generation,
            epoch=to.enabler.epoch,
            is_absent=await self._proxy.has(to, deployment.id) is False,
        )
        log.error(
            "deployment_escalation_refused", deployment=deployment.id, domain=move.domain,
            reason=error.message,
        )  # fmt: skip
        await self._moves.refuse(deployment, move, refusal)

    def _has_changed(self, deployment: Deployment, refusal: MoveRefusal, to: KnownEnabler) -> bool:
        """Return whether an attempt may succeed now that was refused before."""
        is_outdated = refusal.is_outdated(deployment.updated_at, to.rank, self._clock())
        return is_outdated or deployment.id in self._was_away

    def _runs(self, deployment: Deployment) -> bool:
        """Return whether all fragments of a deployment have workers."""
        nodes = [each.node for each in self._status.placed_tasks(deployment)]
        return bool(nodes) and None not in nodes

    async def _delete(self, deployment_id: str, deletion: DeploymentDeleted) -> None:
        """Delete a deployment that was deleted during its move also in the larger domain."""
        to = self._directory.active(deletion.also_in or "")
        if to is None:
            return
        refusing, at = self._refused_deletions.get(deployment_id, (None, 0))
        is_recent = self._clock() - at < RETRY_MS
        if refusing is not None and refusing.rank == to.rank and is_recent:
            return
        try:
            await self._proxy.delete(to, deployment_id)
        except UnavailableError as error:
            if isinstance(error, EnablerRefusedError):
                self._refused_deletions[deployment_id] = to, self._clock()
            log.error("moved_deletion_failed", deployment=deployment_id, reason=error.message)
            return
        self._refused_deletions.pop(deployment_id, None)
        await self._moves.confirm_deletion(deployment_id, deletion)

    def _present(self, deployment_id: str) -> Deployment | None:
        """Return a deployment as it is now; None: it was deleted meanwhile."""
        if not self._deployments.has(deployment_id):
            return None
        return self._deployments.find(deployment_id)
