"""The copy of a standby, and the changes that the active enabler lacks."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from analytics.plan.orders import Lease
from analytics_enabler.deployments.merge import merge
from analytics_enabler.deployments.model import (
    Deployment,
    DeploymentDeleted,
    DeploymentSaved,
    Event,
)
from analytics_enabler.domains.directory import KnownEnabler
from analytics_enabler.domains.proxy import EnablerRefusedError
from analytics_enabler.domains.standby import RETRY_S, StandbyCopy
from analytics_enabler.execution.group_placements import GroupPlacements
from mistbow.errors import UnavailableError
from mistbow.fabric import Enabler
from mistbow.streams.events import event_rows
from mistbow.streams.schemas import DEPLOYMENTS, EVENTS
from tests.analytics_enabler.deployments.test_skewed_clocks import NOW, enabler
from tests.analytics_enabler.support import MemoryJournal, definitions, deployment

TEXT = "i = COMPUTE AVG(cpu, 5 s) EVERY 5 s"
AMENDED = "i = COMPUTE MAX(cpu, 5 s) EVERY 5 s"
ACTIVE = KnownEnabler("a", Enabler(domain="all", url="http://a", generation=5, epoch=1), True)


class ActiveSite:
    """The site of an active enabler: its stream of deployments, and its answers to changes."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Event]] = []
        self.error: UnavailableError | None = None
        self.sent: list[str] = []
        self.read_from: list[int] = []
        self.is_readable = True

    def at(self, site: str) -> "ActiveSite":
        assert site == "a"
        return self

    async def read(self, stream: str, position: int) -> Any:
        if not self.is_readable:
            raise UnavailableError("the disk is slow")
        events = self.events[position:] if stream.startswith(DEPLOYMENTS) else []
        if stream.startswith(DEPLOYMENTS):
            self.read_from.append(position)
        rows = [
            event_rows(NOW, {key: msgspec.json.encode(event).decode()}) for key, event in events
        ]
        table = pa.Table.from_batches(rows, EVENTS)
        return SimpleNamespace(table=table, position=SimpleNamespace(next=position + len(events)))

    def save(self, saved: Deployment) -> None:
        self.events.append((saved.id, DeploymentSaved(saved)))

    async def adopt(self, to: KnownEnabler, change: Deployment) -> None:
        assert to is ACTIVE
        self.sent.append(change.id)
        if self.error is not None:
            raise self.error
        stored = [e.deployment for _, e in self.events if isinstance(e, DeploymentSaved)]
        present = [each for each in stored if each.id == change.id]
        self.save(merge(present[-1], change, NOW) if present else change)

    async def delete(self, to: KnownEnabler, deployment_id: str) -> None:
        assert to is ACTIVE
        self.sent.append(deployment_id)
        self.events.append((deployment_id, DeploymentDeleted(NOW)))


class Decisions:
    """A log that has nothing to copy."""

    async def copy(self, decisions: Any) -> None:
        assert list(decisions) == []


class Standby:
    """A standby, whose stream of deployments began with ``generation``."""

    def __init__(self, generation: int = 1) -> None:
        self.now = 0.0
        self.active = ActiveSite()
        self.deployments, _ = enabler(0, generation)
        site: Any = self.active
        decisions: Any = Decisions()
        journal: Any = MemoryJournal()
        placements = GroupPlacements(journal, lambda: NOW)
        self.copy = StandbyCopy(
            "all", site, self.deployments, placements, decisions, site, lambda: self.now
        )

    async def amended(self) -> Deployment:
        """Return the common version, which is stored at both sites and amended here."""
        common = deployment(TEXT, since=1_000)
        self.active.save(common)
        changed = common.defined_by(definitions(AMENDED), since=2_000)
        own = msgspec.structs.replace(changed, queries=AMENDED, updated_at=3_000, amended_at=3_000)
        await self.deployments.copy(own.id, DeploymentSaved(own))
        return own

    async def update(self, seconds: float = 0.5) -> None:
        self.now += seconds
        await self.copy.update(ACTIVE)


async def test_accepted_change_is_sent_once_and_copied_back() -> None:
    standby = Standby()
    own = await standby.amended()
    for _ in range(3):
        await standby.update()
    assert standby.active.sent == [own.id]
    assert standby.deployments.all() == [own]
    assert standby.active.read_from == [0, 1, 2]


async def test_refused_change_is_retained_and_sent_again_later() -> None:
    standby = Standby()
    own = await standby.amended()
    standby.active.error = EnablerRefusedError("the limit of insights")
    for _ in range(3):
        await standby.update()
    other = deployment(TEXT, deployment_id="d-2")
    standby.active.save(other)
    await standby.update()
    assert standby.active.sent == [own.id]
    assert standby.deployments.all() == [own, other]
    # Nothing is read twice.
    assert standby.active.read_from == [0, 1, 1, 1]
    standby.active.error = None
    await standby.update(RETRY_S)
    await standby.update()
    assert standby.active.sent == [own.id] * 2
    assert standby.deployments.find(own.id).queries == AMENDED
    await standby.update(RETRY_S)
    assert Counter(standby.active.sent) == {own.id: 2}


async def test_change_that_the_active_enabler_has_overtaken_meanwhile_is_not_sent_again() -> None:
    standby = Standby()
    own = await standby.amended()
    standby.active.error = EnablerRefusedError("the limit of insights")
    await standby.update()
    standby.active.events.append((own.id, DeploymentDeleted(NOW)))
    await standby.update()
    assert standby.deployments.all() == []
    await standby.update(RETRY_S)
    assert standby.active.sent == [own.id]


async def test_change_that_did_not_arrive_is_sent_at_the_next_update() -> None:
    standby = Standby()
    own = await standby.amended()
    standby.active.error = UnavailableError("no answer")
    await standby.update()
    standby.active.error = None
    await standby.update()
    assert standby.active.sent == [own.id] * 2


async def test_deletion_of_a_standby_is_sent_once() -> None:
    standby = Standby()
    own = await standby.amended()
    await standby.deployments.delete(own.id)
    for _ in range(3):
        await standby.update()
    assert standby.active.sent == [own.id]
    assert standby.deployments.all() == []


async def test_standby_has_a_lesser_generation_than_the_enabler_that_it_follows() -> None:
    standby = Standby(generation=8)
    standby.active.is_readable = False
    with pytest.raises(UnavailableError):
        await standby.update()
    assert standby.copy.lease == Lease(4, 1)
    assert not await standby.copy.has_all_of(ACTIVE)
    await standby.copy.promote_below(5)
    assert standby.copy.lease == Lease(4, 1)
    standby.active.is_readable = True
    await standby.update()
    assert await standby.copy.has_all_of(ACTIVE)
    await standby.copy.promote(5)
    assert standby.copy.lease == Lease(6, 1)


async def test_copy_from_an_earlier_reign_is_not_complete() -> None:
    standby = Standby()
    standby.active.save(deployment(TEXT))
    await standby.update()
    await standby.copy.promote(5)
    again = msgspec.structs.replace(ACTIVE.enabler, generation=7)
    standby.active.is_readable = False
    with pytest.raises(UnavailableError):
        await standby.copy.update(KnownEnabler("a", again, True))
    assert not await standby.copy.has_all_of(KnownEnabler("a", again, True))


async def test_enabler_without_events_takes_over_below_the_one_that_was_active() -> None:
    """Its stream has begun later than that of the active enabler."""
    starting = Standby(generation=8)
    assert not await starting.copy.has_all_of(ACTIVE)
    await starting.copy.promote_below(5)
    assert starting.copy.lease == Lease(4, 1)


async def test_restarted_enabler_has_all_changes_if_it_was_active_last() -> None:
    for generation, has_all in ((6, True), (4, False)):
        restarted = Standby(generation)
        stored = deployment(TEXT)
        await restarted.deployments.copy(stored.id, DeploymentSaved(stored))
        assert await restarted.copy.has_all_of(ACTIVE) == has_all
        await restarted.copy.promote_below(5)
        assert restarted.copy.lease == Lease(generation, 1)
