"""Changes of a deployment by two enablers whose clocks differ: the later request is in force."""

from typing import Any

import pytest

from analytics_enabler.decision_log import DecisionLog
from analytics_enabler.deployments.merge import merge
from analytics_enabler.deployments.model import Deployment, DeploymentDeleted, DeploymentSaved
from analytics_enabler.deployments.move import Move
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.domains.moves import DeploymentMoves
from analytics_enabler.fabric_view import FabricView
from mistbow.client.agent import AsyncAgentClient
from mistbow.fabric import Fabric, Site
from tests.analytics_enabler.support import MemoryJournal

NOW = 1_795_000_000_000
AHEAD_MS = 600_000
TEXT = "i = COMPUTE {}(cpu, 5 s) EVERY 5 s"


class Catalogue:
    """A catalogue without metrics and schemas."""

    def __init__(self) -> None:
        self.known_units: dict[str, str] = {}

    async def metrics(self) -> tuple[Any, ...]:
        return ()

    async def schemas(self, streams: Any) -> dict[str, Any]:
        return {}


def enabler(ahead_ms: int, generation: int = 1) -> tuple[Deployments, DeploymentMoves]:
    """Return the deployments of an enabler whose clock is ahead, and their moves."""

    def clock() -> int:
        return NOW + ahead_ms

    async def frontier() -> int:
        return NOW

    async def never() -> bool:
        return False

    view = FabricView(AsyncAgentClient("http://127.0.0.1:1"), clock)
    view.whole = Fabric(site="a", sites=(Site(name="a", node="n", url="http://a"),))
    journal: Any = MemoryJournal(generation=generation)
    other: Any = MemoryJournal()
    catalogue: Any = Catalogue()
    nothing: Any = None
    decisions = DecisionLog(other, never, clock)
    deployments = Deployments(journal, catalogue, view, frontier, nothing, decisions, clock)
    return deployments, DeploymentMoves(deployments, decisions, clock)


async def taken_over() -> tuple[Deployments, DeploymentMoves, Deployment]:
    """Return the enabler that took over from one whose clock is ahead, and the former's version."""
    former, _ = enabler(AHEAD_MS)
    theirs = await former.submit(TEXT.format("AVG"), None)
    theirs = await former.amend(theirs.id, TEXT.format("MAX"), None)
    present, moves = enabler(0)
    await present.copy(theirs.id, DeploymentSaved(theirs))
    return present, moves, theirs


async def test_amendment_of_a_copied_deployment_is_later_than_the_copy() -> None:
    present, _, theirs = await taken_over()
    amended = await present.amend(theirs.id, TEXT.format("MIN"), None)
    # The former enabler returns, and offers the version that it has.
    assert merge(amended, theirs, NOW) is amended
    assert merge(theirs, amended, NOW).queries == amended.queries


async def test_deletion_of_a_copied_deployment_is_later_than_the_copy() -> None:
    present, _, theirs = await taken_over()
    await present.delete(theirs.id)
    await present.adopt(theirs)
    assert not present.has(theirs.id)


@pytest.mark.parametrize("ahead_ms", [0, AHEAD_MS])
async def test_deployment_of_a_repeated_key_is_later_than_its_deletion(ahead_ms: int) -> None:
    former, _ = enabler(ahead_ms)
    theirs = await former.submit(TEXT.format("AVG"), None, "key")
    await former.delete(theirs.id)
    deletion = former.deletions.find(theirs.id)
    present, _ = enabler(0)
    await present.copy(theirs.id, deletion)
    again = await present.submit(TEXT.format("AVG"), None, "key")
    assert again.id == theirs.id
    await former.adopt(again)
    assert former.has(again.id)


async def test_pause_and_resumption_of_a_copied_deployment_are_later_than_the_copy() -> None:
    former, _ = enabler(AHEAD_MS)
    theirs = await former.pause((await former.submit(TEXT.format("AVG"), None)).id)
    present, _ = enabler(0)
    await present.copy(theirs.id, DeploymentSaved(theirs))
    resumed = await present.resume(theirs.id)
    assert merge(resumed, theirs, NOW).paused_at is None
    paused = await present.pause(theirs.id)
    assert merge(paused, resumed, NOW).paused_at == paused.paused_at


async def test_end_of_a_move_is_later_than_its_copied_beginning() -> None:
    former, former_moves = enabler(AHEAD_MS)
    submitted = await former.submit(TEXT.format("AVG"), None)
    await former_moves.begin(submitted, "larger", "no worker")
    theirs = former.find(submitted.id)
    present, moves = enabler(0)
    await present.copy(theirs.id, DeploymentSaved(theirs))
    begun = theirs.move
    assert isinstance(begun, Move)
    await moves.stay(theirs, begun, "its workers can run it again")
    stayed = present.find(theirs.id)
    assert merge(stayed, theirs, NOW).pending_move is None
    await moves.begin(stayed, "larger", "no worker again")
    again = present.find(theirs.id)
    assert merge(again, stayed, NOW).pending_move is not None
    assert await moves.release(again, again.move or begun)
    released = present.deletions.find(theirs.id)
    assert released == DeploymentDeleted(released.at, moved_to="larger")
    assert released.at > theirs.updated_at
