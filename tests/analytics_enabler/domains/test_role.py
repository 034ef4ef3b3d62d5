"""The role of an enabler in its domain: which enabler is active, by what each can observe."""

from contextlib import suppress
from typing import Any

import pytest

from analytics.plan.orders import Lease
from analytics_enabler.domains.directory import DomainDirectory, KnownEnabler
from analytics_enabler.domains.role import (
    GRACE_S,
    SPLIT_S,
    START_S,
    TURN_S,
    DomainRole,
    RoleCell,
    RoleState,
)
from analytics_enabler.fabric_view import FabricView
from mistbow.clock import system_clock
from mistbow.domains import Selector
from mistbow.errors import UnavailableError
from mistbow.fabric import Enabler, Fabric, Site

_STEP_S = 0.5


class Copy:
    """The lease of an enabler; a promotion claims it, and raises its generation."""

    def __init__(self, lease: Lease) -> None:
        self.lease: Lease | None = lease
        self.is_fenced = False
        self.stored = lease
        """The newest lease of the streams of the site."""
        self.followed: list[str] = []
        self.error: UnavailableError | None = None
        self.has_all = False
        """Whether the changes of the active enabler are stored."""
        self.taken_over: list[str] = []

    def fence(self, lease: Lease) -> None:
        self.lease, self.stored, self.is_fenced = None, lease, True

    async def reclaim(self) -> None:
        self.is_fenced = False

    async def promote(self, above: int | None) -> None:
        lease = self.lease or Lease(self.stored.generation, self.stored.epoch + 1)
        least = lease.generation if above is None else above + 1
        self.lease = self.stored = Lease(max(lease.generation, least), lease.epoch)

    async def promote_below(self, generation: int) -> None:
        lease = self.lease or Lease(self.stored.generation, self.stored.epoch + 1)
        self.lease = self.stored = Lease(min(lease.generation, generation - 1), lease.epoch)

    async def has_all_of(self, active: KnownEnabler) -> bool:
        return self.has_all or active.site in self.followed

    def record_takeover(self, own_site: str, former_site: str, waited_s: float) -> None:
        self.taken_over.append(f"{own_site} from {former_site} after {waited_s:g} s")

    async def update(self, active: KnownEnabler) -> None:
        if self.error is not None:
            raise self.error
        self.followed.append(active.site)


def enabler_of(site: str, lease: Lease, is_active: bool) -> Enabler:
    return Enabler(
        domain="all", url=f"http://{site}:8000", generation=lease.generation, epoch=lease.epoch,
        is_active=is_active,
    )  # fmt: skip


class Place:
    """An enabler of the domain ``all`` at the site ``b``, and the others that its agent reports."""

    def __init__(self, generation: int = 1) -> None:
        self.now = 0.0
        self.others: dict[str, tuple[Lease, bool]] = {}
        self.unreachable: set[str] = set()
        self.without_enabler: set[str] = set()
        self.successor: tuple[Lease, bool] | None = None
        """The lease of another enabler of the site, and whether it is active."""
        self.is_away = False
        """Whether the agent does not answer."""
        self.copy = Copy(Lease(generation, 1))
        agent: Any = self
        copy: Any = self.copy
        selector = Selector()
        view = FabricView(agent, system_clock, lambda: selector)
        directory = DomainDirectory("all", lambda: selector, view, lambda: self.copy.is_fenced)
        self.role = RoleCell()
        self.decider = DomainRole(self.role, directory, view, copy, lambda: self.now)

    async def fabric(self) -> Fabric:
        """Answer as the agent of the site does."""
        if self.is_away:
            raise UnavailableError("the agent does not answer")
        here = () if self.successor is None else (enabler_of("b", *self.successor),)
        sites = [Site(name="b", node="n-b", url="http://b", enablers=here)]
        for name, (lease, is_active) in self.others.items():
            enabler = enabler_of(name, lease, is_active)
            sites.append(
                Site(
                    name=name, node=name, url=f"http://{name}", enablers=(enabler,),
                    reachable=name not in self.unreachable,
                )
            )  # fmt: skip
        for name in self.without_enabler:
            is_reachable = name not in self.unreachable
            sites.append(Site(name=name, node=name, url=f"http://{name}", reachable=is_reachable))
        return Fabric(site="b", sites=tuple(sites))

    async def run(self, seconds: float, rival_lease: Lease | None = None) -> RoleState:
        """Update the role twice a second for some seconds; return the role."""
        for _ in range(round(seconds / _STEP_S)):
            self.now += _STEP_S
            with suppress(UnavailableError):
                await self.decider.update(rival_lease)
        return self.role.state


async def active(generation: int = 1) -> Place:
    place = Place(generation)
    assert await place.run(START_S) is RoleState.ACTIVE
    return place


async def standby() -> Place:
    """Return a standby of the enabler at ``a``."""
    place = Place()
    place.others["a"] = Lease(5, 1), True
    assert await place.run(2 * GRACE_S) is RoleState.STANDBY
    return place


async def test_standby_takes_over_above_the_lease_of_the_lost_enabler() -> None:
    place = await standby()
    del place.others["a"]
    assert await place.run(GRACE_S - 2 * _STEP_S) is RoleState.STANDBY
    assert await place.run(2 * _STEP_S) is RoleState.ACTIVE
    assert place.copy.lease == Lease(6, 1)
    assert place.copy.taken_over == ["b from a after 4 s"]


async def test_of_two_standbys_the_one_with_the_greater_rank_takes_over() -> None:
    place = await standby()
    place.others["c"] = Lease(1, 1), False
    del place.others["a"]
    assert await place.run(GRACE_S + TURN_S / 2) is RoleState.STANDBY
    place.others["c"] = Lease(6, 1), True
    assert await place.run(2 * GRACE_S) is RoleState.STANDBY
    assert place.copy.followed[-1] == "c"
    # Now c fails at once, and the other standby has the lesser rank.
    place.others = {"a": (Lease(1, 1), False)}
    assert await place.run(GRACE_S) is RoleState.ACTIVE


async def test_second_standby_takes_over_if_the_first_one_does_not() -> None:
    place = await standby()
    place.others = {"c": (Lease(1, 1), False)}
    assert await place.run(GRACE_S + TURN_S) is RoleState.ACTIVE
    assert place.copy.lease == Lease(6, 1)


async def test_enabler_without_others_takes_over_from_nobody() -> None:
    place = await active()
    assert place.copy.taken_over == []


async def test_pause_of_a_standby_is_no_silence_of_the_active_enabler() -> None:
    place = await standby()
    place.now += 60
    # At this moment, the link to the site of the active enabler has not recovered.
    del place.others["a"]
    assert await place.run(GRACE_S / 2) is RoleState.STANDBY
    place.others["a"] = Lease(5, 1), True
    assert await place.run(2 * GRACE_S) is RoleState.STANDBY


async def test_active_enabler_follows_one_with_a_greater_lease() -> None:
    place = await active(5)
    place.others["a"] = Lease(6, 1), True
    assert await place.run(1) is RoleState.STANDBY
    assert place.copy.followed[-1] == "a"


async def test_of_two_enablers_with_equal_leases_one_is_active_and_workers_obey_it() -> None:
    """Two standbys took over at once, and a worker has an order of the other one."""
    place = await active(6)
    place.others["a"] = Lease(6, 1), True
    # The other one will be the standby, because its site comes first.
    assert await place.run(2 * GRACE_S, rival_lease=Lease(6, 1)) is RoleState.ACTIVE
    assert place.copy.lease == Lease(6, 1)
    place.others["a"] = Lease(6, 1), False
    assert await place.run(GRACE_S + 1, rival_lease=Lease(6, 1)) is RoleState.ACTIVE
    assert place.copy.lease == Lease(7, 1)


async def test_active_enabler_raises_its_lease_above_one_that_workers_obey() -> None:
    """The enabler of that lease is gone, and nobody announces it any more."""
    place = await active(5)
    await place.run(GRACE_S - _STEP_S, rival_lease=Lease(9, 3))
    assert place.copy.lease == Lease(5, 1)
    await place.run(2 * _STEP_S, rival_lease=Lease(9, 3))
    assert place.copy.lease == Lease(10, 1)
    # The worker has not had another order since.
    await place.run(2 * GRACE_S, rival_lease=Lease(9, 3))
    assert place.copy.lease == Lease(10, 1)


async def test_unreachable_enabler_may_be_the_one_that_workers_obey() -> None:
    place = await active(5)
    place.others["a"], place.unreachable = (Lease(6, 1), True), {"a"}
    assert await place.run(3 * GRACE_S, rival_lease=Lease(6, 1)) is RoleState.ACTIVE
    assert place.copy.lease == Lease(5, 1)
    place.unreachable = set()
    assert await place.run(1) is RoleState.STANDBY


async def test_unreachable_site_may_have_an_enabler_that_nobody_has_reported() -> None:
    """The link was cut before the announcement of its enabler arrived."""
    place = await active(5)
    place.without_enabler = place.unreachable = {"a"}
    await place.run(3 * GRACE_S, rival_lease=Lease(6, 1))
    assert place.copy.lease == Lease(5, 1)
    # Its announcement may arrive some time after the link is healed.
    place.unreachable = set()
    await place.run(GRACE_S - _STEP_S, rival_lease=Lease(6, 1))
    assert place.copy.lease == Lease(5, 1)
    await place.run(2 * _STEP_S, rival_lease=Lease(6, 1))
    assert place.copy.lease == Lease(7, 1)


async def test_unreachable_site_delays_a_greater_lease_but_does_not_prevent_it() -> None:
    place = await active(5)
    place.without_enabler = place.unreachable = {"a"}
    await place.run(SPLIT_S, rival_lease=Lease(6, 1))
    assert place.copy.lease == Lease(5, 1)
    await place.run(2 * _STEP_S, rival_lease=Lease(6, 1))
    assert place.copy.lease == Lease(7, 1)


async def standby_without_copy() -> Place:
    """Return a standby of the enabler at ``a``, whose streams it cannot read."""
    place = Place(8)
    place.copy.error = UnavailableError("the disk is slow")
    place.others["a"] = Lease(5, 1), True
    assert await place.run(2 * GRACE_S) is RoleState.STANDBY
    return place


async def test_standby_without_a_copy_takes_over_below_the_lease_that_workers_obey() -> None:
    place = await standby_without_copy()
    place.unreachable = {"a"}
    assert await place.run(GRACE_S) is RoleState.ACTIVE
    await place.run(SPLIT_S - GRACE_S, rival_lease=Lease(5, 1))
    assert place.copy.lease is not None
    assert place.copy.lease < Lease(5, 1)
    # The enabler at a has never been away.
    place.unreachable, place.copy.error = set(), None
    assert await place.run(1, rival_lease=Lease(5, 1)) is RoleState.STANDBY
    assert place.copy.followed[-1] == "a"


async def test_standby_without_a_copy_raises_its_lease_if_the_active_enabler_stays_away() -> None:
    place = await standby_without_copy()
    place.others, place.without_enabler = {}, {"a"}
    assert await place.run(GRACE_S) is RoleState.ACTIVE
    # Even if all sites are reachable: the streams at a cannot be read.
    await place.run(SPLIT_S, rival_lease=Lease(5, 1))
    assert place.copy.lease == Lease(4, 1)
    await place.run(1, rival_lease=Lease(5, 1))
    assert place.copy.lease == Lease(6, 1)


async def test_lease_is_raised_soon_if_the_former_enabler_follows_as_a_standby() -> None:
    place = await standby_without_copy()
    place.unreachable = {"a"}
    assert await place.run(GRACE_S) is RoleState.ACTIVE
    # The enabler at a has ended, and begins again as a standby, which sends its changes.
    place.unreachable, place.others["a"] = set(), (Lease(3, 1), False)
    await place.run(GRACE_S, rival_lease=Lease(5, 1))
    assert place.copy.lease == Lease(4, 1)
    await place.run(2 * _STEP_S, rival_lease=Lease(5, 1))
    assert place.copy.lease == Lease(6, 1)


async def test_standby_copies_the_streams_of_an_enabler_that_has_ended() -> None:
    place = await standby_without_copy()
    place.others, place.without_enabler, place.copy.error = {}, {"a"}, None
    assert await place.run(GRACE_S) is RoleState.ACTIVE
    assert place.copy.followed == ["a"]
    assert place.copy.lease == Lease(8, 1)


@pytest.mark.parametrize(("has_all", "generation"), [(True, 8), (False, 4)])
async def test_enabler_that_starts_while_the_active_one_is_unreachable(
    has_all: bool, generation: int
) -> None:
    place = Place(8)
    place.copy.has_all = has_all
    place.others["a"], place.unreachable = (Lease(5, 1), True), {"a"}
    assert await place.run(START_S) is RoleState.ACTIVE
    assert place.copy.lease == Lease(generation, 1)


async def test_enabler_that_starts_while_a_standby_is_unreachable_was_active_itself() -> None:
    place = Place(8)
    place.others["a"], place.unreachable = (Lease(7, 1), False), {"a"}
    assert await place.run(START_S) is RoleState.ACTIVE
    assert place.copy.lease == Lease(8, 1)


async def test_refusals_that_end_raise_no_lease() -> None:
    place = await active(5)
    for _ in range(3):
        await place.run(GRACE_S - 1, rival_lease=Lease(9, 3))
        await place.run(_STEP_S)
    assert place.copy.lease == Lease(5, 1)


async def fenced() -> Place:
    """Return a place whose enabler another one of the site has fenced."""
    place = await active(5)
    place.successor = Lease(5, 2), True
    place.copy.fence(Lease(5, 2))
    assert await place.run(_STEP_S) is RoleState.STANDBY
    return place


async def test_fenced_enabler_takes_over_once_its_successor_has_ended() -> None:
    place = await fenced()
    assert await place.run(2 * GRACE_S) is RoleState.STANDBY
    place.successor = None
    assert await place.run(GRACE_S - _STEP_S) is RoleState.STANDBY
    assert place.copy.is_fenced
    assert await place.run(_STEP_S) is RoleState.ACTIVE
    assert place.copy.lease == Lease(6, 3)
    assert place.copy.taken_over == ["b from b after 4 s"]
    # The streams of the site belonged to the successor.
    assert place.copy.followed == []


async def test_successor_without_a_copy_leaves_its_site_without_a_copy() -> None:
    place = await standby_without_copy()
    place.unreachable = {"a"}
    place.copy.fence(Lease(4, 2))
    place.successor = Lease(4, 2), True
    assert await place.run(GRACE_S) is RoleState.STANDBY
    place.successor = None
    assert await place.run(2 * GRACE_S + 1) is RoleState.ACTIVE
    assert place.copy.lease is not None
    assert place.copy.lease < Lease(5, 1)


async def test_absence_of_the_agent_is_no_end_of_a_successor() -> None:
    place = await fenced()
    place.is_away = True
    await place.run(2 * GRACE_S)
    place.is_away, place.successor = False, None
    assert await place.run(GRACE_S - _STEP_S) is RoleState.STANDBY
    assert await place.run(_STEP_S) is RoleState.ACTIVE


async def test_fenced_standby_follows_again_once_its_successor_has_ended() -> None:
    """Both enablers of the site are standbys of the enabler at ``a``."""
    place = await standby()
    place.successor = Lease(1, 2), False
    place.copy.fence(Lease(1, 2))
    followed = len(place.copy.followed)
    assert await place.run(2 * GRACE_S) is RoleState.STANDBY
    assert len(place.copy.followed) == followed
    place.successor = None
    assert await place.run(GRACE_S) is RoleState.STANDBY
    assert not place.copy.is_fenced
    assert len(place.copy.followed) > followed


async def test_fenced_enabler_leaves_the_domain_to_a_standby_at_another_site() -> None:
    place = await fenced()
    place.others["a"] = Lease(1, 1), False
    place.successor = None
    assert await place.run(GRACE_S + TURN_S / 2) is RoleState.STANDBY
    place.others["a"] = Lease(6, 1), True
    assert await place.run(2 * GRACE_S) is RoleState.STANDBY
    assert place.copy.followed[-1] == "a"
