"""The role of an enabler in its domain: one enabler is active, the others are standbys."""

import asyncio
import time
from collections.abc import Callable
from enum import Enum

import msgspec

from analytics.plan.orders import Lease
from analytics_enabler.domains.directory import DomainDirectory, KnownEnabler
from analytics_enabler.domains.standby import StandbyCopy
from analytics_enabler.fabric_view import FabricView
from mistbow.errors import MistbowError
from mistbow.failure_detector import RunningTime
from mistbow.telemetry import get_logger

log = get_logger(__name__)

START_S = 5.0
"""The time for which a starting enabler waits for enablers of its domain that do not answer."""

SETTLE_S = 1.5
"""The time for which a starting enabler waits for the facts of other sites about enablers."""

GRACE_S = 4.0
"""The time without an active enabler after which a standby takes over.

An enabler that ends is lost to the fabric after 3 s, and a site whose link is cut is unreachable
after 2.5 s. So a standby takes over after about 7 s, and not because of a pause of some seconds.
"""

TURN_S = 2.0
"""The additional time after which a standby takes over while a greater rank is reachable.

So only one of several standbys takes over, unless this standby fails, and fragments move once.
"""


SPLIT_S = 300.0
"""The time of refused orders after which an enabler raises its lease while sites are unreachable.

So two enablers that both reach a worker, but not each other, raise their leases in turn seldom.
"""


class RoleState(Enum):
    """The states of a role; only an active enabler plans the domain."""

    STARTING = "starting"
    ACTIVE = "active"
    STANDBY = "standby"


class RoleCell:
    """The present role of an enabler in its domain, which ``DomainRole`` decides."""

    def __init__(self) -> None:
        self._stepped_down = asyncio.Event()
        self.state = RoleState.STARTING

    @property
    def is_active(self) -> bool:
        """Whether the enabler is active."""
        return self.state is RoleState.ACTIVE

    @property
    def is_known(self) -> bool:
        """Whether the role is decided."""
        return self.state is not RoleState.STARTING

    @property
    def is_standby(self) -> bool:
        """Whether this enabler is a standby."""
        return self.state is RoleState.STANDBY

    async def until_standby(self) -> None:
        """Wait until this enabler is a standby, and has tried to send its changes.

        Otherwise, a client that connects again might not find its deployment at the active enabler.
        """
        await self._stepped_down.wait()

    def enter(self, state: RoleState) -> None:
        """Change the role."""
        self.state = state
        self._stepped_down.clear()

    def end_step_down(self) -> None:
        """Let ``until_standby`` return: the new standby has tried to send its changes."""
        self._stepped_down.set()


class DomainRole:
    """Decides whether this enabler is active in its domain.

    ::

        STARTING -> ACTIVE    no other enabler of the domain is active, or answers within START_S
        STARTING -> STANDBY   another enabler of the domain is active
        STANDBY -> ACTIVE     no other one was active for GRACE_S, or TURN_S longer if a standby
                              of a greater rank is reachable: with a greater generation
        ACTIVE -> STANDBY     another active enabler has a greater rank
        ACTIVE -> STANDBY     this enabler is fenced: another one has claimed its streams

    Two enablers that cannot reach each other may both be active. This costs work, but changes no
    result: workers obey the greater lease, and results are idempotent.

    An enabler that takes over may lack changes of the enabler that was active last: it has copied
    nothing from it. It then takes over with a lesser generation, so that it stops no fragments of
    deployments that it does not know. It raises its generation if workers have refused its orders
    for SPLIT_S.

    A worker may obey the lease of an enabler that is gone, or an equal lease of a second standby
    that has taken over at the same time. So an active enabler raises its generation if workers have
    refused its orders for GRACE_S, all sites were reachable for GRACE_S, and no other enabler of
    the domain is active. While a site is unreachable, an unknown enabler at that site may hold the
    obeyed lease. So the generation is then raised after SPLIT_S.

    A fenced standby copies nothing, because the streams of its site belong to its successor. Once
    the successor was not seen for GRACE_S, whether active or not, the standby forgets what it has
    read. It claims the streams again when it takes over, or follows an enabler at another site.

    ``timer``: a monotonic time (s). The time for which this process was paused does not count,
    because it has seen no other enabler in this time.
    """

    def __init__(
        self,
        role: RoleCell,
        directory: DomainDirectory,
        fabric_view: FabricView,
        copy: StandbyCopy,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._role = role
        self._directory = directory
        self._fabric_view = fabric_view
        self._copy = copy
        self._timer = RunningTime(timer)
        self._since = self._timer()
        self._lacked: KnownEnabler | None = None
        """The enabler that was active before this one, and whose changes may be missing here."""
        self._refused_since: float | None = None
        self._split_at = self._since
        """The last time at which a site was unreachable."""
        self._greatest_rival: int | None = None
        self._followed: KnownEnabler | None = None
        """The active enabler that this standby has followed last."""
        self._succeeded_at = self._since
        """The last time at which this enabler was not fenced, or its successor was seen."""

    async def update(self, rival_lease: Lease | None = None) -> bool:
        """Read the fabric, update the role, and return whether the enabler is active.

        A standby copies the state of the active enabler. ``rival_lease``: the greatest lease that
        workers obey instead of the lease of this enabler; None: they obey this enabler.
        """
        self._timer()
        try:
            await self._fabric_view.refresh()
        except MistbowError:
            # Nothing was seen meanwhile, so the silence of other enablers is no evidence.
            self._succeeded_at = self._timer()
            if not self._role.is_active:
                self._since = self._succeeded_at
            raise
        self._note_rivals()
        self._note_split()
        is_fenced = await self._note_fence()
        active = self._directory.active(self._directory.domain)
        if is_fenced:
            self._enter_fenced(active)
        else:
            await self._change(active, rival_lease)
        if self._role.is_standby and active is not None:
            self._since, self._followed = self._timer(), active
            if not is_fenced:
                await self._follow(active)
        return self._role.is_active

    async def _change(self, active: KnownEnabler | None, rival_lease: Lease | None) -> None:
        """Change the state; ``active``: the other active enabler of the domain."""
        match self._role.state:
            case RoleState.ACTIVE if active is not None and active.rank > self._rank():
                self._enter(RoleState.STANDBY, active)
            case RoleState.STARTING if active is not None:
                self._enter(RoleState.STANDBY, active)
            case RoleState.STARTING if self._has_waited(START_S) or self._all_stand_by():
                await self._take_over()
            case RoleState.STANDBY if active is None and self._has_waited(self._grace_s()):
                await self._take_over()
            case RoleState.ACTIVE:
                await self._outrank(rival_lease if active is None else None)

    def _all_stand_by(self) -> bool:
        """Return whether every other enabler of the domain is reachable, and a standby."""
        rivals = self._directory.rivals()
        fabric = self._fabric_view.whole
        if not rivals and fabric is not None and len(fabric.sites) > 1:
            # The fact about another enabler may be on its way from its site.
            return self._has_waited(SETTLE_S)
        return all(each.is_reachable and not each.enabler.is_active for each in rivals)

    def _grace_s(self) -> float:
        """Return the time without an active enabler after which this standby takes over."""
        rank, rivals = self._rank(), self._directory.rivals()
        is_second = any(each.is_reachable and each.rank > rank for each in rivals)
        return GRACE_S + TURN_S if is_second else GRACE_S

    def _rank(self) -> tuple[int, int, str]:
        lease = self._copy.lease or Lease(0, 0)
        fabric = self._fabric_view.whole
        return lease.generation, lease.epoch, "" if fabric is None else fabric.site

    async def _note_fence(self) -> bool:
        """Return whether this enabler is fenced, which ends after its successor has ended."""
        if not self._copy.is_fenced:
            self._succeeded_at = self._timer()
            return False
        if self._directory.successor() is not None:
            self._succeeded_at = self._timer()
        if self._timer() - self._succeeded_at < GRACE_S:
            return True
        await self._copy.reclaim()
        return False

    def _enter_fenced(self, active: KnownEnabler | None) -> None:
        """Become a standby, whose successor reads the same streams, so it has all changes."""
        if not self._role.is_standby:
            self._enter(RoleState.STANDBY, active)
        self._role.end_step_down()

    async def _follow(self, active: KnownEnabler) -> None:
        try:
            await self._copy.update(active)
        except MistbowError as error:
            log.info("standby_copy_failed", site=active.site, reason=error.message)
        finally:
            self._role.end_step_down()

    def _note_rivals(self) -> None:
        """Record the greatest generation of other enablers, before they withdraw it."""
        generations = [each.enabler.generation for each in self._directory.rivals()]
        if self._greatest_rival is not None:
            generations.append(self._greatest_rival)
        self._greatest_rival = max(generations, default=None)

    def _note_split(self) -> None:
        fabric = self._fabric_view.whole
        if fabric is None or not all(site.reachable for site in fabric.sites):
            self._split_at = self._timer()

    async def _take_over(self) -> None:
        waited_s = round(self._timer() - self._since, 1)
        fabric = self._fabric_view.whole
        former = self._former()
        has_all = former is None or await self._has_all_of(former)
        self._lacked = None if has_all else former
        if self._lacked is None:
            await self._copy.promote(self._greatest_rival)
        else:
            await self._copy.promote_below(self._lacked.enabler.generation)
            log.warning(
                "enabler_copy_incomplete", domain=self._directory.domain, site=self._lacked.site
            )
        if self._followed is not None and fabric is not None:
            self._copy.record_takeover(fabric.site, self._followed.site, waited_s)
        self._followed = None
        self._enter(RoleState.ACTIVE, None)

    async def _has_all_of(self, former: KnownEnabler) -> bool:
        """Return whether all changes of an enabler are stored here, or its site still has them."""
        fabric = self._fabric_view.whole
        if fabric is None or former.site == fabric.site:
            return True
        is_reachable = any(each.reachable for each in fabric.sites if each.name == former.site)
        if is_reachable and not await self._copy.has_all_of(former):
            await self._follow(former)
        return await self._copy.has_all_of(former)

    def _former(self) -> KnownEnabler | None:
        """Return the other enabler that was active with the greatest lease when it was seen last.

        It may not be the one that this standby has followed: a successor at the same site may have
        taken over without the changes of an enabler at another site.
        """
        found = [each for each in self._directory.rivals() if each.enabler.is_active]
        if self._followed is not None:
            found.append(self._followed)
        return max(found, key=lambda each: each.rank, default=None)

    def _is_followed_by(self, former: KnownEnabler) -> bool:
        """Return whether the enabler at the site of a former one is a standby of this one."""
        standbys = (each for each in self._directory.rivals() if not each.enabler.is_active)
        return any(each.is_reachable and each.site == former.site for each in standbys)

    async def _outrank(self, rival_lease: Lease | None) -> None:
        """Raise the generation above a lease that workers have obeyed for too long."""
        now, lease = self._timer(), self._copy.lease
        if rival_lease is None or lease is None or lease > rival_lease:
            self._refused_since = None
            return
        if self._lacked is not None and self._is_followed_by(self._lacked):
            # A new standby first sends its changes, which takes less time than GRACE_S.
            self._lacked = self._refused_since = None
        if self._refused_since is None:
            self._refused_since = now
        is_sure = self._lacked is None and now - self._split_at >= GRACE_S
        patience_s = GRACE_S if is_sure else SPLIT_S
        if now - self._refused_since >= patience_s:
            self._refused_since = self._lacked = None
            await self._copy.promote(rival_lease.generation)
            log.warning(
                "enabler_lease_raised",
                domain=self._directory.domain,
                above=msgspec.to_builtins(rival_lease),
            )

    def _has_waited(self, seconds: float) -> bool:
        return self._timer() - self._since >= seconds

    def _enter(self, state: RoleState, active: KnownEnabler | None) -> None:
        self._role.enter(state)
        self._since = self._timer()
        log.info(
            "enabler_role_changed",
            domain=self._directory.domain,
            state=state.value,
            active=None if active is None else msgspec.to_builtins(active.enabler),
        )
