"""Requests that are in progress while their enabler becomes a standby."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from analytics_enabler.decision_log import DecisionLog
from analytics_enabler.deployments.model import Deployment, DeploymentSaved, Event
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.domains.role import RoleState
from analytics_enabler.fabric_view import FabricView
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import UnavailableError
from mistbow.fabric import Fabric, Site
from tests.analytics_enabler.support import MemoryJournal, deployment

NOW = 1_795_000_000_000
TEXT = "i = COMPUTE AVG(cpu, 5 s) EVERY 5 s"
AMENDED = "i = COMPUTE MAX(cpu, 5 s) EVERY 5 s"
STORED = "d-1"


class SlowCatalogue:
    """A catalogue whose answer takes until ``answers`` is set."""

    def __init__(self) -> None:
        self.known_units: dict[str, str] = {}
        self.is_asked = asyncio.Event()
        self.answers = asyncio.Event()

    async def metrics(self) -> tuple[Any, ...]:
        """Wait, and return no metric."""
        self.is_asked.set()
        await self.answers.wait()
        return ()

    async def schemas(self, _streams: Any) -> dict[str, Any]:
        """Return no schema."""
        return {}


class SlowJournal(MemoryJournal):
    """A journal whose appends take until ``accepts`` is set."""

    def __init__(self, *stored: tuple[str, Any]) -> None:
        super().__init__(*stored)
        self.is_asked = asyncio.Event()
        self.accepts = asyncio.Event()
        self.appended: list[str] = []

    async def append(self, key: str, event: Any, at: int) -> None:
        """Wait, and accept an event."""
        del event, at
        self.is_asked.set()
        await self.accepts.wait()
        self.appended.append(key)


class Place:
    """An active enabler with one deployment."""

    def __init__(self) -> None:
        self.state = RoleState.ACTIVE
        self.catalogue = SlowCatalogue()
        stored = deployment(TEXT, since=NOW - 60_000, deployment_id=STORED)
        self.journal = SlowJournal((STORED, DeploymentSaved(stored)))
        view = FabricView(AsyncAgentClient("http://127.0.0.1:1"), lambda: NOW)
        view.whole = Fabric(site="a", sites=(Site(name="a", node="n", url="http://a"),))
        other: Any = MemoryJournal()
        journal: Any = self.journal
        catalogue: Any = self.catalogue
        nothing: Any = None
        self.deployments = Deployments(
            journal, catalogue, view, self._frontier, nothing,
            DecisionLog(other, self._may_write, lambda: NOW), lambda: NOW,
            is_standby=lambda: self.state is RoleState.STANDBY,
        )  # fmt: skip

    async def _frontier(self) -> int:
        return NOW

    async def _may_write(self) -> bool:
        return False


@pytest.mark.parametrize(
    "change",
    [
        lambda deployments: deployments.submit(TEXT, None),
        lambda deployments: deployments.submit(TEXT, None, "key"),
        lambda deployments: deployments.amend(STORED, AMENDED, None),
    ],
    ids=["submit", "submit with a key", "amend"],
)
async def test_change_whose_check_outlasts_the_role_is_refused(
    change: Callable[[Deployments], Awaitable[Deployment]],
) -> None:
    place = Place()
    place.journal.accepts.set()
    request = asyncio.ensure_future(change(place.deployments))
    await place.catalogue.is_asked.wait()
    place.state = RoleState.STANDBY
    place.catalogue.answers.set()
    with pytest.raises(UnavailableError, match="has become a standby") as refused:
        await request
    assert "Try again" in (refused.value.hint or "")
    assert place.journal.appended == []


def saved(present: Deployment | None) -> Event | None:
    """Return an event that stores a deployment again."""
    return None if present is None else DeploymentSaved(present)


@pytest.mark.parametrize(
    "change",
    [
        lambda deployments: deployments.pause(STORED),
        lambda deployments: deployments.resume(STORED),
        lambda deployments: deployments.delete(STORED),
        lambda deployments: deployments.adopt(deployment(TEXT, deployment_id="d-2")),
        lambda deployments: deployments.change(STORED, saved),
        lambda deployments: deployments.settle(lambda _: []),
    ],
    ids=["pause", "resume", "delete", "adopt", "change", "settle"],
)
async def test_standby_refuses_changes_except_copies(
    change: Callable[[Deployments], Awaitable[object]],
) -> None:
    place = Place()
    place.journal.accepts.set()
    place.state = RoleState.STANDBY
    with pytest.raises(UnavailableError, match="has become a standby"):
        await change(place.deployments)
    assert place.journal.appended == []
    copied = deployment(TEXT, deployment_id="d-3")
    await place.deployments.copy("d-3", DeploymentSaved(copied))
    assert place.deployments.find("d-3") == copied


async def test_change_that_has_begun_is_among_those_that_a_standby_sends() -> None:
    place = Place()
    request = asyncio.ensure_future(place.deployments.pause(STORED))
    await place.journal.is_asked.wait()
    place.state = RoleState.STANDBY
    refreshed = asyncio.ensure_future(place.deployments.refresh())
    place.journal.accepts.set()
    await refreshed
    assert place.deployments.find(STORED).paused_at is not None
    assert (await request).paused_at is not None
