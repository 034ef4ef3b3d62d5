"""Which copies a site goes on wanting while others are not complete yet."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from mistbow.errors import ConflictError
from mistbow.settings import AgentSettings
from mistbow.streams.events import event_rows
from mistbow.streams.schemas import EVENTS, RAW
from storage_agent.fabric.facts import as_event
from storage_agent.fabric.greeting import Greeting
from storage_agent.fabric.member import Member
from storage_agent.monitoring.catalogue import Catalogue
from storage_agent.replication.filters import SeriesFilter
from storage_agent.replication.moved import Moved, MovedPoints
from storage_agent.replication.offering import Offers, Want
from storage_agent.replication.restrictions import Restrictions
from storage_agent.replication.told import KEPT_KEY, Copy, Kept, id_of, name_of, replaces
from storage_agent.streams.manifest import Deletion
from storage_agent.streams.streams import Streams
from tests.storage_agent.conftest import HeldClock

AT_B, AT_C = Want("b", why="so"), Want("c", why="so")
CPU, MEM = SeriesFilter(metric=("cpu",)), SeriesFilter(metric=("mem",))


def copy(target: str = "b", **more: object) -> Copy:
    made = Copy(**{"id": "", "target": target, "why": "so", "since": 0, **more})
    return msgspec.structs.replace(made, id=id_of(made))


@asynccontextmanager
async def offering(
    streams: Streams,
    settings: AgentSettings,
    clock: HeldClock,
    complete: str,
    noted: Moved | None = None,
) -> AsyncIterator[Offers]:
    """Yield what a site offers that reaches b and c, of which some say that theirs is complete."""
    for site in "bc":
        name = f"replicas/{site}/metadata"
        await streams.create(name, EVENTS)
        kept = (Kept(of="a", id=copy(site).id, complete=site in complete),)
        rows = event_rows(clock(), {KEPT_KEY: as_event(kept)})
        await (await streams.get(name)).writer.append(rows)
    member = Member(settings.model_copy(update={"site": "a"}), clock)
    await member.open(streams, Catalogue())
    for site in "bc":
        url = f"http://{site}:1"
        member.neighbours.answered(url, Greeting(site=site, node=site, url=url, instance="1"), 1.0)
    moved = MovedPoints(member)
    if noted is not None:
        await streams.recover({})
        moved.open(streams)
        await moved.note(noted.note())
    offers = Offers(member, Restrictions("", member), moved, clock)
    offers.open(streams, Catalogue())
    yield offers
    await member.settled()
    await member.close()


def targets(offers: Offers) -> list[str]:
    return sorted(each.target for each in offers.all())


async def test_what_is_complete_stays_until_what_follows_it_is(
    streams: Streams, settings: AgentSettings, clock: HeldClock
) -> None:
    async with offering(streams, settings, clock, "b") as offers:
        offers.decide([AT_B])
        offers.fragile = True
        offers.decide([])
        assert targets(offers) == ["b"], "there is nothing else"
        offers.fragile = False
        offers.decide([AT_C])
        assert targets(offers) == ["b", "c"], "what takes its place is not complete"
        offers.fragile = True
        with pytest.raises(ConflictError, match="no other copy of this is complete"):
            await offers.withdraw(copy().id, "b")
    async with offering(streams, settings, clock, "bc") as offers:
        assert targets(offers) == ["b", "c"]
        offers.decide([AT_C])
        assert targets(offers) == ["c"]
        offers.fragile = False
        offers.decide([])
        assert targets(offers) == [], "nobody needs it, and the site is not fragile"


async def test_a_deletion_is_owed_to_who_alone_has_what_moved(
    streams: Streams, settings: AgentSettings, clock: HeldClock
) -> None:
    noted = Moved(copy().id, "b", "of-b", 1, 1)
    deletion = Deletion(id=1, before=1, created=clock())
    async with offering(streams, settings, clock, "bc", noted) as offers:
        offers.decide([AT_C])
        assert offers.unheard(RAW)(deletion)
        assert not offers.owed(RAW)(deletion)
        offers.decide([AT_B])
        offers.review()
        assert offers.owed(RAW)(deletion)


def test_what_takes_the_place_of_a_copy() -> None:
    assert replaces(copy("c"), copy("b", filter=CPU))
    assert not replaces(copy("c", filter=CPU), copy("b"))
    assert replaces(copy(withheld=(CPU,)), copy(withheld=(CPU, MEM)))
    assert not replaces(copy(withheld=(CPU, MEM)), copy(withheld=(CPU,)))
    again = copy(incarnation=1)
    assert not replaces(again, copy())
    assert name_of("a", again) == f"replicas/a/raw/{again.id}" != name_of("a", copy())
