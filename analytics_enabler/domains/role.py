"""The role of an enabler in its domain: one enabler is active, the others are standbys."""

import time
from collections.abc import Callable
from enum import Enum

import msgspec

from analytics.plan.orders import Lease
from analytics_enabler.domains.directory import DomainDirectory, KnownEnabler
from analytics_enabler.domains.standby import StandbyCopy
from analytics_enabler.fabric_view import FabricView
from mistbow.errors import MistbowError
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


class RoleState(Enum):
    """The states of a role; only an active enabler plans the domain."""

    STARTING = "starting"
    ACTIVE = "active"
    STANDBY = "standby"


class DomainRole:
    """Decides whether this enabler is active in its domain.

    ::

        STARTING -> ACTIVE    no other enabler of the domain is active, or answers within START_S
        STARTING -> STANDBY   another enabler of the domain is active
        STANDBY -> ACTIVE     no other one was active for GRACE_S: with a greater generation
        ACTIVE -> STANDBY     another active enabler has a greater rank

    Two enablers that cannot reach each other may both be active. This costs work, but changes no
    result: workers obey the greater lease, and results are idempotent.
    """

    def __init__(
        self,
        directory: DomainDirectory,
        fabric_view: FabricView,
        copy: StandbyCopy,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory
        self._fabric_view = fabric_view
        self._copy = copy
        self._timer = timer
        self._since = timer()
        self._greatest_rival: int | None = None
        self.state = RoleState.STARTING

    @property
    def is_active(self) -> bool:
        """Whether the enabler is active."""
        return self.state is RoleState.ACTIVE

    @property
    def is_known(self) -> bool:
        """Whether the role is decided."""
        return self.state is not RoleState.STARTING

    async def rules(self) -> bool:
        """Read the fabric, update the role, and return whether the enabler is active.

        A standby copies the state of the active enabler.
        """
        try:
            await self._fabric_view.refresh()
        except MistbowError:
            if not self.is_active:
                # Nothing was seen meanwhile, so the silence of other enablers is no evidence.
                self._since = self._timer()
            raise
        self._note_rivals()
        active = self._directory.active(self._directory.domain)
        match self.state:
            case RoleState.ACTIVE if active is not None and active.rank > self._rank():
                self._enter(RoleState.STANDBY, active)
            case RoleState.STARTING if active is not None:
                self._enter(RoleState.STANDBY, active)
            case RoleState.STARTING if self._waited(START_S) or self._all_stand_by():
                await self._take_over()
            case RoleState.STANDBY if active is None and self._waited(GRACE_S):
                await self._take_over()
        if self.state is RoleState.STANDBY and active is not None:
            self._since = self._timer()
            await self._follow(active)
        return self.is_active

    def _all_stand_by(self) -> bool:
        """Return whether every other enabler of the domain is reachable, and a standby."""
        rivals = self._directory.rivals()
        fabric = self._fabric_view.whole
        if not rivals and fabric is not None and len(fabric.sites) > 1:
            # The fact about another enabler may be on its way from its site.
            return self._waited(SETTLE_S)
        return all(each.is_reachable and not each.enabler.is_active for each in rivals)

    def _rank(self) -> tuple[int, int, str]:
        lease = self._copy.lease or Lease(0, 0)
        fabric = self._fabric_view.whole
        return lease.generation, lease.epoch, "" if fabric is None else fabric.site

    async def _follow(self, active: KnownEnabler) -> None:
        try:
            await self._copy.update(active)
        except MistbowError as error:
            log.info("standby_copy_failed", site=active.site, reason=error.message)

    def _note_rivals(self) -> None:
        """Record the greatest generation of other enablers, before they withdraw it."""
        generations = [each.enabler.generation for each in self._directory.rivals()]
        if self._greatest_rival is not None:
            generations.append(self._greatest_rival)
        self._greatest_rival = max(generations, default=None)

    async def _take_over(self) -> None:
        await self._copy.promote(self._greatest_rival)
        self._enter(RoleState.ACTIVE, None)

    def _waited(self, seconds: float) -> bool:
        return self._timer() - self._since >= seconds

    def _enter(self, state: RoleState, active: KnownEnabler | None) -> None:
        self.state, self._since = state, self._timer()
        log.info(
            "enabler_role_changed",
            domain=self._directory.domain,
            state=state.value,
            active=None if active is None else msgspec.to_builtins(active.enabler),
        )
