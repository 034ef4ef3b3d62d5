"""The parts of an enabler, made in phases: each phase is made from the parts of earlier phases."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Self, TypeVar

from analytics.client.worker import AsyncWorkerClient
from analytics.insight_models import DeploymentStatus
from analytics.plan.orders import Lease
from analytics_enabler.agent_proxy import AgentProxy
from analytics_enabler.api.views import status_of
from analytics_enabler.attributes import RecentAttributes
from analytics_enabler.catalogue import DataCatalogue
from analytics_enabler.decision_log import DecisionLog, decision_from_json
from analytics_enabler.deployments.model import Deployment, event_from_json
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.domains.announcer import EnablerAnnouncer
from analytics_enabler.domains.directory import DomainDirectory
from analytics_enabler.domains.domain_sites import DomainSites
from analytics_enabler.domains.escalation import Escalation
from analytics_enabler.domains.moves import DeploymentMoves
from analytics_enabler.domains.proxy import DomainProxy
from analytics_enabler.domains.role import DomainRole, RoleCell
from analytics_enabler.domains.standby import StandbyCopy
from analytics_enabler.execution import Reconciler
from analytics_enabler.execution.group_placements import GroupPlacements, group_placement_from_json
from analytics_enabler.execution.history import ExecutionHistory
from analytics_enabler.execution.planner import Planner
from analytics_enabler.execution.point_rates import PointRates
from analytics_enabler.execution.source_quality import SourceQualities
from analytics_enabler.explain import Explainer
from analytics_enabler.explain.coverage import CoverageReader
from analytics_enabler.explain.previewer import Previewer
from analytics_enabler.fabric_view import FabricView
from analytics_enabler.journal import EventJournal
from analytics_enabler.limits import MAX_FOLLOWER_CONNECTIONS
from analytics_enabler.live.events import CursorClock
from analytics_enabler.live.fog_history import FogHistory
from analytics_enabler.live.fog_view import FogView
from analytics_enabler.live.health import HealthReporter
from analytics_enabler.live.result_hub import ResultHub
from analytics_enabler.live.site_statuses import SiteStatuses
from analytics_enabler.live.topic_hub import TopicHub
from analytics_enabler.live.topics import DecisionsTopic, FogTopic, HealthTopic, StatesTopic
from analytics_enabler.results.reader import ResultReader
from analytics_enabler.results.streams import ResultStreams
from analytics_enabler.sampling_requests import SamplingRequestPublisher
from analytics_enabler.scheduling.driver.driver import PlacementDriver
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.registry import scheduler_names
from analytics_enabler.settings import EnablerSettings
from mistbow.client.agent import AsyncAgentClient
from mistbow.client.credentials import ServiceCredentials, service_credentials
from mistbow.clock import Clock
from mistbow.errors import MistbowError
from mistbow.fabric import Enabler
from mistbow.name_resolver import NAMES
from mistbow.runtime.tasks import BackgroundTasks
from mistbow.streams.schemas import (
    DECISIONS,
    DEPLOYMENTS,
    FOG_HISTORY,
    PLACEMENTS,
    RAW,
    domain_stream,
)

Event = TypeVar("Event")


@dataclass(frozen=True, slots=True)
class Storage:
    """The data of the fog, which the enabler reads from the storage agent of its site.

    ``followed``, ``followed_results``: with a client of its own, so that open streams do not block
    other requests.
    """

    settings: EnablerSettings
    clock: Clock
    agent: AsyncAgentClient
    followed: AsyncAgentClient
    proxy: AgentProxy
    sites: DomainSites
    fabric_view: FabricView
    catalogue: DataCatalogue
    attributes: RecentAttributes
    results: ResultStreams
    followed_results: ResultStreams

    @classmethod
    def of(cls, settings: EnablerSettings, clock: Clock) -> Self:
        """Make the parts of this phase."""
        ca, url = settings.client_tls, settings.agent_url
        credentials = service_credentials(url, settings.proof, "agent")
        agent = AsyncAgentClient(url, credentials, ca=ca)
        followed = AsyncAgentClient(
            url, credentials, ca=ca, max_connections=MAX_FOLLOWER_CONNECTIONS
        )
        sites = DomainSites(settings)
        fabric_view = FabricView(agent, clock, sites.selector)

        def own_site() -> str:
            return fabric_view.own_site

        return cls(
            settings=settings,
            clock=clock,
            agent=agent,
            followed=followed,
            proxy=AgentProxy(url, settings),
            sites=sites,
            fabric_view=fabric_view,
            catalogue=DataCatalogue(agent, fabric_view),
            attributes=RecentAttributes(agent, fabric_view),
            results=ResultStreams(agent, own_site),
            followed_results=ResultStreams(followed, own_site),
        )

    async def frontier(self) -> int:
        """Return the frontier (ms) of the points of this site."""
        return (await self.agent.info(RAW)).frontier

    def journal(self, name: str, decode: Callable[[str], Event]) -> EventJournal[Event]:
        """Return the journal of a stream of the enabler's domain."""
        stream = domain_stream(name, self.settings.domain)
        return EventJournal(self.agent, stream, decode, self.clock)


@dataclass(frozen=True, slots=True)
class DomainState:
    """The stored state of the enabler's domain, and the role of the enabler in the domain."""

    deployments: Deployments
    decisions: DecisionLog
    placements: GroupPlacements
    directory: DomainDirectory
    proxy: DomainProxy
    role: RoleCell
    domain_role: DomainRole
    moves: DeploymentMoves

    @classmethod
    def of(cls, storage: Storage) -> Self:
        """Make the parts of this phase."""
        settings, clock, domain = storage.settings, storage.clock, storage.settings.domain
        role = RoleCell()
        deployed = storage.journal(DEPLOYMENTS, event_from_json)
        decided = storage.journal(DECISIONS, decision_from_json)
        decisions = DecisionLog(decided, deployed.has_lease, clock)
        deployments = Deployments(
            deployed,
            storage.catalogue,
            storage.fabric_view,
            storage.frontier,
            storage.results.frontier,
            decisions,
            clock,
            settings.scheduler,
            domain,
            storage.attributes,
            lambda: role.is_standby,
        )
        placements = GroupPlacements(storage.journal(PLACEMENTS, group_placement_from_json), clock)
        directory = DomainDirectory(
            domain, storage.sites.selector, storage.fabric_view, lambda: deployments.fenced
        )
        proxy = DomainProxy(directory, settings, settings.enabler_url)
        copy = StandbyCopy(domain, storage.agent, deployments, placements, decisions, proxy)
        return cls(
            deployments=deployments,
            decisions=decisions,
            placements=placements,
            directory=directory,
            proxy=proxy,
            role=role,
            domain_role=DomainRole(role, directory, storage.fabric_view, copy),
            moves=DeploymentMoves(deployments, decisions, clock),
        )

    async def announced_lease(self) -> Lease | None:
        """Read and return the lease to announce; None while the enabler starts, or is fenced."""
        if self.role.is_known and self.deployments.current_lease is not None:
            # Without an answer of the agent, the announcement fails too.
            with suppress(MistbowError):
                await self.deployments.lease()
            return self.deployments.current_lease
        return None


@dataclass(frozen=True, slots=True)
class Execution:
    """The parts that let workers run the insights, and that explain and preview insights."""

    reconciler: Reconciler
    sampling_requests: SamplingRequestPublisher
    announcer: EnablerAnnouncer
    escalation: Escalation
    explainer: Explainer
    coverage: CoverageReader
    previewer: Previewer

    @classmethod
    def of(cls, storage: Storage, state: DomainState) -> Self:
        """Make the parts of this phase."""
        settings, clock = storage.settings, storage.clock
        agent, fabric_view, catalogue = storage.agent, storage.fabric_view, storage.catalogue
        deployments, role = state.deployments, state.role

        def connect(url: str, site: str) -> AsyncWorkerClient:
            # The address was announced. Even without a token, the client requires that a worker of
            # the announcing site answers there. Otherwise, an order could reach a worker of another
            # site.
            credentials = ServiceCredentials(url, settings.proof or "", kind="worker", site=site)
            return AsyncWorkerClient(url, credentials, attempts=1, ca=settings.client_tls)

        driver = PlacementDriver(settings=settings.scheduler_settings)
        rates = PointRates(agent)
        reconciler = Reconciler(
            deployments,
            fabric_view,
            state.placements,
            Planner(agent, state.placements, settings.patience_ms),
            driver,
            catalogue,
            ExecutionHistory(state.decisions, driver, fabric_view),
            connect,
            clock,
            state.domain_role,
            rates,
            SourceQualities(agent, rates, clock),
            settings.domain,
        )
        coverage = CoverageReader(agent, catalogue, clock)
        return cls(
            reconciler=reconciler,
            sampling_requests=SamplingRequestPublisher(
                agent, fabric_view, deployments, lambda: role.is_active, settings.domain
            ),
            announcer=EnablerAnnouncer(
                agent,
                Enabler(domain=settings.domain, url=settings.enabler_url),
                storage.sites.selector,
                state.announced_lease,
                lambda: role.is_active,
                settings.identity,
            ),
            escalation=Escalation(
                state.directory,
                state.proxy,
                deployments,
                state.moves,
                reconciler.status,
                role,
                clock,
            ),
            explainer=Explainer(reconciler, fabric_view, catalogue, agent, settings.domain),
            coverage=coverage,
            previewer=Previewer(fabric_view, agent, connect, catalogue, coverage),
        )

    def fog(self, fabric_view: FabricView) -> Fog | None:
        """Return the snapshot of the fog; None: the fabric is not known yet."""
        return None if fabric_view.fabric is None else self.reconciler.fog(fabric_view.fabric)


@dataclass(frozen=True, slots=True)
class Condition:
    """Whether the enabler is ready, and the problems that an operator should solve."""

    storage: Storage
    state: DomainState
    reconciler: Reconciler
    background: BackgroundTasks

    async def waiting_for(self) -> list[str]:
        """Return why the enabler is not ready."""
        deployments = self.state.deployments
        if deployments.fenced:
            return [
                "another enabler has taken over this site: stop one of the two; this one takes "
                "over again when the other one has ended"
            ]
        if not deployments.is_loaded:
            outage = self.reconciler.outage()
            why = "" if outage is None else f": {outage}"
            url = self.storage.settings.agent_url
            return [f"the deployments at the storage agent {url} are not read yet{why}"]
        try:
            await deployments.lease()
        except MistbowError as error:
            return [error.message]
        return []

    async def warnings(self) -> list[str]:
        """Return the warnings of ``/readyz``, which adds those of names."""
        return [*self._setting_warnings(), *self.background.problems]

    async def health_warnings(self) -> list[str]:
        """Return the warnings of the health, which lists the ended tasks separately."""
        return [*self._setting_warnings(), *NAMES.problems()]

    def _setting_warnings(self) -> list[str]:
        found = missing_scheduler(self.storage.settings.scheduler)
        return [*found, *self.storage.sites.warnings(), *self.state.directory.warnings()]


@dataclass(frozen=True, slots=True)
class Live:
    """The parts that serve results, and the present and past states of the domain."""

    reader: ResultReader
    cursors: CursorClock
    result_hub: ResultHub
    statuses: SiteStatuses
    fog_view: FogView
    fog_history: FogHistory
    health: HealthReporter
    topic_hub: TopicHub

    @classmethod
    def of(
        cls, storage: Storage, state: DomainState, execution: Execution, condition: Condition
    ) -> Self:
        """Make the parts of this phase."""
        settings, clock = storage.settings, storage.clock
        agent, catalogue, fabric_view = storage.agent, storage.catalogue, storage.fabric_view
        reconciler, deployments = execution.reconciler, state.deployments

        def shown(deployment: Deployment) -> DeploymentStatus:
            return status_of(deployment, reconciler.status, catalogue.known_units)

        def all_shown() -> Iterator[DeploymentStatus]:
            return map(shown, deployments.all())

        reader, cursors = ResultReader(storage.results, clock), CursorClock(clock)
        statuses = SiteStatuses(agent, fabric_view.reachable_sites)
        fog_view = FogView(reconciler, fabric_view, catalogue, agent, statuses, clock)
        health = HealthReporter(
            fog_view, all_shown, condition.waiting_for, condition.health_warnings, clock,
            settings.certificates.warnings,
            tuple if settings.identity is None else settings.identity.faults,
            lambda: condition.background.ended,
        )  # fmt: skip
        history = domain_stream(FOG_HISTORY, settings.domain)
        return cls(
            reader=reader,
            cursors=cursors,
            result_hub=ResultHub(deployments, reader, storage.followed_results, cursors),
            statuses=statuses,
            fog_view=fog_view,
            fog_history=FogHistory(agent, history, fog_view, lambda: state.role.is_active, clock),
            health=health,
            topic_hub=TopicHub(
                {
                    "states": StatesTopic(deployments, shown),
                    "fog": FogTopic(fog_view),
                    "health": HealthTopic(health.report),
                    "decisions": DecisionsTopic(state.decisions),
                },
                cursors,
            ),
        )


@dataclass(frozen=True, slots=True)
class EnablerParts:
    """All parts of an enabler."""

    storage: Storage
    state: DomainState
    execution: Execution
    condition: Condition
    live: Live

    @classmethod
    def of(cls, settings: EnablerSettings, clock: Clock) -> Self:
        """Make all parts; their tasks run between ``start`` and ``close``."""
        storage = Storage.of(settings, clock)
        state = DomainState.of(storage)
        execution = Execution.of(storage, state)
        condition = Condition(storage, state, execution.reconciler, BackgroundTasks())
        live = Live.of(storage, state, execution, condition)
        return cls(storage, state, execution, condition, live)

    def start(self) -> None:
        """Start the tasks of the enabler."""
        background, execution, live = self.condition.background, self.execution, self.live
        background.spawn("reconciliation", execution.reconciler.run())
        background.spawn("sampling requests", execution.sampling_requests.run())
        background.spawn("decisions", self.state.decisions.run())
        background.spawn("announcement of this enabler", execution.announcer.run())
        background.spawn("escalation of deployments", execution.escalation.run())
        background.spawn("live topics", live.topic_hub.run())
        background.spawn("history of the fog", live.fog_history.run())
        background.spawn("status of sites", live.statuses.run())

    async def close(self) -> None:
        """End all tasks, and close all clients."""
        await self.condition.background.close()
        await self.live.result_hub.close()
        await self.state.proxy.close()
        await self.storage.proxy.close()
        await self.storage.followed.close()
        await self.storage.agent.close()


def missing_scheduler(name: str) -> list[str]:
    """Return a warning if the scheduler of insights that name none is not installed.

    >>> missing_scheduler("fair")
    []
    >>> [warning] = missing_scheduler("nope")
    >>> warning.partition(";")[0]
    "MISTBOW_SCHEDULER: there is no scheduler 'nope'"
    """
    installed = scheduler_names()
    if name in installed:
        return []
    names = ", ".join(installed)
    return [f"MISTBOW_SCHEDULER: there is no scheduler {name!r}; installed: {names}"]
