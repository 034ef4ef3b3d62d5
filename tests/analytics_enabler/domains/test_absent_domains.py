"""Moves to a larger domain without a reachable enabler: shown, given up, and completed later."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from analytics_enabler.decision_log import DecisionKind, DecisionLog
from analytics_enabler.deployments.model import Deployment, DeploymentDeleted, DeploymentSaved
from analytics_enabler.deployments.move import (
    MAX_ABSENCE_MS,
    MAX_UNANNOUNCED_MS,
    DomainAbsence,
    Move,
    MoveRefusal,
)
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.domains.directory import DomainDirectory, KnownEnabler
from analytics_enabler.domains.escalation import PATIENCE_MS, Escalation
from analytics_enabler.domains.moves import DeploymentMoves
from analytics_enabler.execution.outages import pending_move
from analytics_enabler.fabric_view import FabricView
from mistbow.client.agent import AsyncAgentClient
from mistbow.domains import Selector
from mistbow.fabric import Enabler, Fabric, Site
from tests.analytics_enabler.support import MemoryJournal, deployment

START = 1_795_000_000_000
REFUSAL = MoveRefusal(at=START, why="full", site="hub", generation=1, epoch=1, is_absent=True)


@dataclass
class Remote:
    """The enabler of the domain ``all``: the deployments that it has, and the adopted ones."""

    has_it: bool | None = False
    adopted: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)

    async def has(self, to: KnownEnabler, deployment_id: str) -> bool | None:
        return self.has_it

    async def adopt(self, to: KnownEnabler, deployment: Deployment) -> None:
        self.adopted.append(deployment.id)

    async def delete(self, to: KnownEnabler, deployment_id: str) -> None:
        self.deleted.append(deployment_id)


@dataclass
class Workers:
    """The status of the execution; ``run``: whether workers run all fragments."""

    run: bool = False
    is_active: bool = True

    def unplaced(self, deployment: Deployment) -> None:
        """Return that no task waits for a worker, so that no other move begins."""

    def placement(self, deployment: Deployment) -> list[Any]:
        return []


class Region:
    """The enabler of the domain ``north``, with one deployment and a clock."""

    def __init__(self, move: Move) -> None:
        self.now = START
        stored = msgspec.structs.replace(
            deployment("i = COMPUTE AVG(x, 5 s) EVERY 5 s"), domain="north", move=move
        )
        view = FabricView(AsyncAgentClient("http://127.0.0.1:1"), self._clock)
        self._view = view
        journal: Any = MemoryJournal((stored.id, DeploymentSaved(stored)))
        decisions: Any = MemoryJournal()
        self.decisions = DecisionLog(decisions, self._may_write, self._clock)
        nothing: Any = None
        self.deployments = Deployments(
            journal, nothing, view, nothing, nothing, self.decisions, self._clock, domain="north"
        )
        selector = Selector(sites=("b",))
        self.directory = DomainDirectory("north", lambda: selector, view)
        self.moves = DeploymentMoves(self.deployments, self.decisions, self._clock)
        self.remote = Remote()
        remote: Any = self.remote
        workers: Any = Workers()
        self._escalation = Escalation(
            self.directory, remote, self.deployments, self.moves, workers, workers, self._clock
        )

    def _clock(self) -> int:
        return self.now

    async def _may_write(self) -> bool:
        return True

    def sees_larger_domain(self, *, reachable: bool | None) -> None:
        """Let the fabric have an enabler of the domain ``all``; None: no site announces it."""
        larger = () if reachable is None else (Enabler(domain="all", url="http://hub:8000"),)
        hub = Site(
            name="hub", node="n", url="http://hub", enablers=larger, reachable=reachable is True
        )
        own = Site(name="b", node="n-b", url="http://b")
        self._view.whole = Fabric(site="b", sites=(own, hub))

    async def check(self, after_ms: int = 5_000) -> None:
        """Check the moves of the deployments after a time."""
        self.now += after_ms
        await self._escalation._check()

    @property
    def move(self) -> Move:
        """The stored move of the deployment."""
        move = self.deployments.find("d-1").move
        assert move is not None
        return move

    @property
    def stays(self) -> list[str]:
        """Why the deployment stayed in its domain, by the decisions."""
        return [
            each.why
            for each in self.decisions.newest(100)
            if each.kind is DecisionKind.DEPLOYMENT_STAYED
        ]


async def region(move: Move | None = None) -> Region:
    """Return an enabler that has read a deployment with a move to the domain ``all``."""
    found = Region(move or Move(domain="all", reason="no worker", at=START, changed_at=START))
    await found.deployments.refresh()
    return found


async def absent(*, reachable: bool | None) -> Region:
    """Return an enabler that has stored that the domain ``all`` is absent."""
    found = await region()
    found.sees_larger_domain(reachable=reachable)
    await found.check()
    before = found.move.absence
    await found.check(PATIENCE_MS)
    # A short absence is not stored.
    assert (before, found.move.absence is None) == (None, False)
    return found


@pytest.mark.parametrize(
    ("reachable", "wait_ms", "why"),
    [
        (False, MAX_ABSENCE_MS, "its site is unreachable"),
        (None, MAX_UNANNOUNCED_MS, "no site of the fabric announces this domain"),
    ],
)
async def test_move_to_an_absent_domain_is_shown_and_given_up(
    reachable: bool | None, wait_ms: int, why: str
) -> None:
    north = await absent(reachable=reachable)
    began = START + 5_000
    assert north.move.absence == DomainAbsence(since=began, is_announced=reachable is False)
    outage = pending_move(north.move)
    assert (outage.since, outage.why) == (began, why)
    assert "the domain all, to which the deployment moves" in outage.what
    assert "Start an enabler of the domain all" in outage.next
    await north.check(began + wait_ms - 1 - north.now)
    assert north.deployments.find("d-1").pending_move is not None
    await north.check(1)
    assert north.deployments.find("d-1").pending_move is None
    [reason] = north.stays
    assert reason.startswith("no enabler of the domain all is reachable since 20")
    await north.check()
    assert len(north.stays) == 1
    assert north.remote.adopted == []


async def test_move_continues_when_the_larger_domain_is_reachable_again() -> None:
    north = await absent(reachable=False)
    north.sees_larger_domain(reachable=True)
    await north.check()
    assert north.move.absence is None
    await north.check()
    assert north.remote.adopted == ["d-1"]
    assert not north.deployments.has("d-1")
    assert north.stays == []


async def given_up() -> Region:
    """Return an enabler that has given up the move; the domain ``all`` is reachable then."""
    north = await absent(reachable=None)
    await north.check(MAX_UNANNOUNCED_MS)
    assert len(north.stays) == 1
    north.sees_larger_domain(reachable=True)
    return north


async def test_move_that_was_given_up_is_completed_if_the_larger_domain_has_the_deployment() -> (
    None
):
    north = await given_up()
    north.remote.has_it = None
    await north.check()
    assert (north.move.is_ended, north.move.is_unsettled) == (True, True)
    north.remote.has_it = True
    await north.check()
    assert north.remote.adopted == ["d-1"]
    assert not north.deployments.has("d-1")


async def test_deployment_stays_if_the_larger_domain_lacks_it() -> None:
    north = await given_up()
    await north.check()
    assert (north.move.is_ended, north.move.is_unsettled) == (True, False)
    north.remote.has_it = True  # submitted there by somebody else
    await north.check()
    assert north.deployments.has("d-1")
    assert north.remote.adopted == []


async def test_deployment_whose_move_was_given_up_is_deleted_in_the_larger_domain_too() -> None:
    north = await given_up()
    await north.deployments.delete("d-1")
    assert north.deployments.deletions.find("d-1").also_in == "all"
    await north.check()
    assert north.remote.deleted == ["d-1"]
    assert north.deployments.deletions.pending() == {}


async def test_refused_move_that_was_given_up_is_settled() -> None:
    ended = Move(
        domain="all", reason="no worker", at=START, changed_at=START, refusal=REFUSAL,
        is_ended=True, absence=DomainAbsence(since=START, is_announced=True),
    )  # fmt: skip
    assert not ended.is_unsettled
    assert msgspec.structs.replace(ended, refusal=None).is_unsettled


async def test_confirmation_of_a_deletion_leaves_a_newer_deletion_pending() -> None:
    north = await region()
    north.sees_larger_domain(reachable=False)
    former = DeploymentDeleted(START, also_in="all")
    newer = DeploymentDeleted(START + 1, also_in="all")
    for event in (former, newer):
        await north.deployments.copy("d-1", event)
    await north.moves.confirm_deletion("d-1", former)
    assert north.deployments.deletions.pending() == {"d-1": newer}
    await north.moves.confirm_deletion("d-1", newer)
    assert north.deployments.deletions.pending() == {}
