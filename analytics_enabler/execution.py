"""Making the worker run what is deployed, and knowing how far it is."""

import asyncio
from enum import StrEnum

from analytics_enabler.deployments.model import Deployment, Generation
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.fragments import FRAGMENT_ID, fragment_of
from analytics_enabler.instruments import INSIGHTS, RECONCILE_ERRORS
from mistbow.client.agent import AsyncAgentClient
from mistbow.client.worker import AsyncWorkerClient
from mistbow.errors import MistbowError
from mistbow.plan.nodes import Fragment
from mistbow.plan.status import FragmentStatus
from mistbow.streams.schemas import RESULT_ROWS, RESULTS
from mistbow.telemetry import get_logger

log = get_logger(__name__)

DEBOUNCE_S = 0.2
INTERVAL_S = 1.0


class Progress(StrEnum):
    """How far an insight or a deployment is."""

    WAITING = "waiting for a worker"
    STARTING = "starting"
    RUNNING = "running"
    FAILED = "failed"


class Execution:
    """Compares what should run with what the worker runs, and mends the difference."""

    def __init__(
        self, deployments: Deployments, agent: AsyncAgentClient, worker: AsyncWorkerClient
    ) -> None:
        self._deployments = deployments
        self._agent = agent
        self._worker = worker
        self._wanted: Fragment | None = None
        self._status: FragmentStatus | None = None
        self._results_exist = False
        self.problem: str | None = None
        """Why the worker may not run what it should; None when it does."""

    async def run(self) -> None:
        """Reconcile on every change, and each second, until cancelled."""
        while True:
            try:
                await self._reconcile()
                self.problem = None
            except MistbowError as error:
                self._note(error.message)
            except Exception as error:
                # A fault of ours: the loop must live, or no later change would reach the worker.
                log.exception("reconciling failed")
                self._note(f"{type(error).__name__}: {error}")
            try:
                async with asyncio.timeout(INTERVAL_S):
                    await self._deployments.changed.wait()
                # Several submissions in a row make one change.
                await asyncio.sleep(DEBOUNCE_S)
            except TimeoutError:
                pass

    def progress(self, generation: Generation) -> Progress:
        """Return how far an insight is."""
        status = self._status
        if status is None or self._wanted is None:
            return Progress.WAITING if self.problem is not None else Progress.STARTING
        if status.state == "failed":
            return Progress.FAILED
        accepted = status.fingerprint == self._wanted.fingerprint and status.state == "running"
        done = status.frontier >= generation.first_tick
        return Progress.RUNNING if accepted and done else Progress.STARTING

    def summary(self, deployment: Deployment) -> Progress:
        """Return how far a deployment is: as far as the least of its insights."""
        found = {self.progress(generation) for generation in deployment.live}
        for progress in (Progress.FAILED, Progress.WAITING, Progress.STARTING):
            if progress in found:
                return progress
        return Progress.RUNNING

    @property
    def error(self) -> str | None:
        """What the worker or the way to it suffers from."""
        if self._status is not None and self._status.error is not None:
            return self._status.error
        return self.problem

    async def _reconcile(self) -> None:
        await self._deployments.refresh()
        if self._deployments.changed.is_set():
            self._deployments.changed.clear()
            running = self._deployments.running()
            self._wanted = await asyncio.to_thread(fragment_of, running)
        INSIGHTS.set(sum(len(deployment.live) for deployment in self._deployments.all()))
        found = {status.id: status for status in await self._worker.list()}
        self._status = found.get(FRAGMENT_ID)
        if self._wanted is None:
            if self._status is not None:
                await self._stop()
        elif not _in_hand(self._wanted, self._status):
            await self._start(self._wanted)
        elif self._status is not None and self._status.state == "running":
            await self._deployments.settle(self._status.frontier)

    async def _start(self, wanted: Fragment) -> None:
        await self._deployments.check_owned()
        if not self._results_exist:
            await self._agent.create_stream(RESULTS, RESULT_ROWS)
            self._results_exist = True
        self._status = await self._worker.run(wanted)
        log.info(
            "fragment sent", fingerprint=wanted.fingerprint, insights=len(wanted.plan.insights)
        )

    async def _stop(self) -> None:
        await self._deployments.check_owned()
        await self._worker.stop(FRAGMENT_ID)
        self._status = None
        log.info("fragment stopped")

    def _note(self, problem: str) -> None:
        RECONCILE_ERRORS.inc()
        if problem != self.problem:
            log.warning("the worker does not run what is deployed", reason=problem)
        self.problem = problem
        self._status = None


def _in_hand(wanted: Fragment, status: FragmentStatus | None) -> bool:
    """Return whether the worker has this fragment in hand.

    One that was fenced off has given up, until it is asked anew.
    """
    return (
        status is not None and status.fingerprint == wanted.fingerprint and status.state != "fenced"
    )
