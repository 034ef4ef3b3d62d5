"""The process of the enabler: builds the components and serves the API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import cast

from fastapi import Depends, FastAPI, Request, Response
from prometheus_client import REGISTRY

from analytics.client.worker import AsyncWorkerClient
from analytics.insight_models import DeploymentStatus
from analytics.plan.orders import Lease
from analytics_enabler.agent_proxy import AgentProxy
from analytics_enabler.api import descriptions
from analytics_enabler.api.decisions import decisions_router
from analytics_enabler.api.dependencies import proxied_by_standby
from analytics_enabler.api.editor import VocabularySource, editor_router
from analytics_enabler.api.events import events_router
from analytics_enabler.api.health import health_router
from analytics_enabler.api.insights import insights_router
from analytics_enabler.api.metrics import metrics_router
from analytics_enabler.api.placements import placements_router
from analytics_enabler.api.queries import queries_router
from analytics_enabler.api.results import results_router
from analytics_enabler.api.sessions import sessions_router
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
from analytics_enabler.domains.proxy import DomainProxy, Proxied
from analytics_enabler.domains.role import DomainRole
from analytics_enabler.domains.standby import StandbyCopy
from analytics_enabler.execution import Reconciler
from analytics_enabler.execution.demand_metrics import DemandCollector
from analytics_enabler.execution.fog_metrics import FogCollector
from analytics_enabler.execution.group_placements import GroupPlacements, group_placement_from_json
from analytics_enabler.execution.history import ExecutionHistory
from analytics_enabler.execution.planner import Planner
from analytics_enabler.execution.point_rates import PointRates
from analytics_enabler.execution.settled_results import SettledResults
from analytics_enabler.execution.source_quality import SourceQualities
from analytics_enabler.explain import Explainer
from analytics_enabler.explain.coverage import CoverageReader
from analytics_enabler.explain.previewer import Previewer
from analytics_enabler.fabric_view import FabricView
from analytics_enabler.journal import EventJournal
from analytics_enabler.limits import (
    MAX_EVENT_STREAMS,
    MAX_FOLLOWER_CONNECTIONS,
    MAX_FOLLOWERS,
)
from analytics_enabler.live.events import CursorClock
from analytics_enabler.live.fog_history import FogHistory
from analytics_enabler.live.fog_view import FogView
from analytics_enabler.live.health import HealthReporter
from analytics_enabler.live.result_hub import ResultHub
from analytics_enabler.live.site_statuses import SiteStatuses
from analytics_enabler.live.topic_hub import TopicHub
from analytics_enabler.live.topics import DecisionsTopic, FogTopic, HealthTopic, StatesTopic
from analytics_enabler.results.follower_limit import FollowerLimit
from analytics_enabler.results.reader import ResultReader
from analytics_enabler.results.streams import ResultStreams
from analytics_enabler.sampling_requests import SamplingRequestPublisher
from analytics_enabler.scheduling.driver.driver import PlacementDriver
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.registry import scheduler_names
from analytics_enabler.settings import EnablerSettings
from analytics_enabler.web.pages import Pages, installed_pages, is_public
from analytics_enabler.web.sessions import BrowserSessions, SessionLogin
from mistbow.client.agent import AsyncAgentClient
from mistbow.client.credentials import ServiceCredentials, service_credentials
from mistbow.clock import Clock, system_clock
from mistbow.errors import MistbowError
from mistbow.fabric import Enabler
from mistbow.name_resolver import NAMES
from mistbow.runtime.tasks import BackgroundTasks
from mistbow.service import create_service, serve
from mistbow.streams.schemas import (
    DECISIONS,
    DEPLOYMENTS,
    FOG_HISTORY,
    PLACEMENTS,
    RAW,
    domain_stream,
)
from mistbow.timestamps import Timestamps

DESCRIPTION = "Deploys insights, runs them on workers and serves their results."


def create_app(
    settings: EnablerSettings, clock: Clock = system_clock, max_followers: int = MAX_FOLLOWERS
) -> FastAPI:
    """Return the enabler as a web application."""
    ca, domain = settings.client_tls, settings.domain
    credentials = service_credentials(settings.agent_url, settings.proof, "agent")
    agent = AsyncAgentClient(settings.agent_url, credentials, ca=ca)
    followed = AsyncAgentClient(
        settings.agent_url, credentials, ca=ca, max_connections=MAX_FOLLOWER_CONNECTIONS
    )
    sites = DomainSites(settings)
    fabric_view = FabricView(agent, clock, sites.selector)
    catalogue = DataCatalogue(agent, fabric_view)
    attributes = RecentAttributes(agent, fabric_view)

    async def frontier() -> int:
        return (await agent.info(RAW)).frontier

    def connect(url: str, site: str) -> AsyncWorkerClient:
        # The address was announced. Even without a token, the client requires that a worker of the
        # announcing site answers there. Otherwise, an order could reach a worker of another site.
        credentials = ServiceCredentials(url, settings.proof or "", kind="worker", site=site)
        return AsyncWorkerClient(url, credentials, attempts=1, ca=ca)

    async def is_in_charge() -> bool:
        return await deployments.is_in_charge()

    async def announced_lease() -> Lease | None:
        if role.is_known and deployments.current_lease is not None:
            # Without an answer of the agent, the announcement fails too.
            with suppress(MistbowError):
                await deployments.lease()
            return deployments.current_lease
        return None

    def is_standby() -> bool:
        return role.is_standby

    def own_site() -> str:
        return fabric_view.own_site

    result_streams = ResultStreams(agent, own_site)
    followed_streams = ResultStreams(followed, own_site)
    decided = EventJournal(agent, domain_stream(DECISIONS, domain), decision_from_json, clock)
    decisions = DecisionLog(decided, is_in_charge, clock)
    deployments = Deployments(
        EventJournal(agent, domain_stream(DEPLOYMENTS, domain), event_from_json, clock),
        catalogue,
        fabric_view,
        frontier,
        result_streams.frontier,
        decisions,
        clock,
        settings.scheduler,
        domain,
        attributes,
        is_standby,
    )
    stream = domain_stream(PLACEMENTS, domain)
    placed = EventJournal(agent, stream, group_placement_from_json, clock)
    placements = GroupPlacements(placed, clock)
    planner = Planner(agent, placements, settings.patience_ms)
    driver = PlacementDriver(settings=settings.scheduler_settings)
    history = ExecutionHistory(decisions, driver, fabric_view)
    directory = DomainDirectory(domain, sites.selector, fabric_view, lambda: deployments.fenced)
    proxy = DomainProxy(directory, settings, settings.enabler_url)
    copy = StandbyCopy(domain, agent, deployments, placements, decisions, proxy)
    role = DomainRole(directory, fabric_view, copy)
    rates = PointRates(agent)
    reconciler = Reconciler(
        deployments, fabric_view, placements, planner, driver, catalogue, history, connect, clock,
        role, rates, SourceQualities(agent, rates, clock), domain,
    )  # fmt: skip
    sampling_requests = SamplingRequestPublisher(
        agent, fabric_view, deployments, lambda: role.is_active, domain
    )
    explainer = Explainer(reconciler, fabric_view, catalogue, agent, domain)
    announcer = EnablerAnnouncer(
        agent,
        Enabler(domain=domain, url=settings.enabler_url),
        sites.selector,
        announced_lease,
        lambda: role.is_active,
        settings.identity,
    )
    moves = DeploymentMoves(deployments, decisions, clock)
    escalation = Escalation(directory, proxy, deployments, moves, reconciler.status, role, clock)

    async def readiness() -> list[str]:
        return await _unready_reasons(deployments, reconciler, settings.agent_url)

    background = BackgroundTasks()

    async def setting_warnings() -> list[str]:
        found = missing_scheduler(settings.scheduler)
        return [*found, *sites.warnings(), *directory.warnings()]

    async def warnings() -> list[str]:
        return [*await setting_warnings(), *background.problems]

    async def health_warnings() -> list[str]:
        return [*await setting_warnings(), *NAMES.problems()]

    agent_proxy = AgentProxy(settings.agent_url, settings)
    reader, cursors = ResultReader(result_streams, clock), CursorClock(clock)
    result_hub = ResultHub(deployments, reader, followed_streams, cursors)
    statuses = SiteStatuses(agent, fabric_view.reachable_sites)
    fog_view = FogView(reconciler, fabric_view, catalogue, agent, statuses, clock)
    fog_history = FogHistory(
        agent, domain_stream(FOG_HISTORY, domain), fog_view, lambda: role.is_active, clock
    )

    def shown(deployment: Deployment) -> DeploymentStatus:
        return status_of(deployment, reconciler.status, catalogue.known_units)

    health = HealthReporter(
        fog_view, lambda: map(shown, deployments.all()), readiness, health_warnings, clock,
        settings.certificates.warnings,
        tuple if settings.identity is None else settings.identity.faults,
        lambda: background.ended,
    )  # fmt: skip
    topic_hub = TopicHub(
        {
            "states": StatesTopic(deployments, shown),
            "fog": FogTopic(fog_view),
            "health": HealthTopic(health.report),
            "decisions": DecisionsTopic(decisions),
        },
        cursors,
    )

    def fog() -> Fog | None:
        return None if fabric_view.fabric is None else reconciler.fog(fabric_view.fabric)

    collectors = (DemandCollector(reconciler.estimates), FogCollector(fog))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for each in collectors:
            REGISTRY.register(each)
        background.spawn("reconciliation", reconciler.run())
        background.spawn("sampling requests", sampling_requests.run())
        background.spawn("decisions", decisions.run())
        background.spawn("announcement of this enabler", announcer.run())
        background.spawn("escalation of deployments", escalation.run())
        background.spawn("live topics", topic_hub.run())
        background.spawn("history of the fog", fog_history.run())
        background.spawn("status of sites", statuses.run())
        yield
        for each in collectors:
            REGISTRY.unregister(each)
        await background.close()
        await result_hub.close()
        await proxy.close()
        await agent_proxy.close()
        for client in (followed, agent):
            await client.close()

    app = create_service(
        "Mistbow analytics enabler",
        settings,
        readiness=readiness,
        warnings=warnings,
        lifespan=lifespan,
        description=DESCRIPTION,
        api=descriptions.DESCRIPTION,
        wrap=partial(Pages, pages=installed_pages() if settings.pages else {}),
        is_public=is_public,
    )
    sessions = BrowserSessions(clock)
    if settings.proof is not None:
        # Outside the authentication, to which it passes the token of a session.
        app.add_middleware(SessionLogin, sessions=sessions)
    app.include_router(
        sessions_router(sessions, settings, token_required=settings.proof is not None)
    )
    app.add_exception_handler(Proxied, _proxied)
    by_standby = [Depends(proxied_by_standby(role, proxy))]
    limit, event_limit = FollowerLimit(max_followers), FollowerLimit(MAX_EVENT_STREAMS)
    times = Timestamps(settings.timestamp_unit)
    vocabulary = VocabularySource(deployments, catalogue, attributes, fabric_view)
    settled = SettledResults(reconciler.status, agent)
    coverage = CoverageReader(agent, catalogue, clock)
    previewer = Previewer(fabric_view, agent, connect, catalogue, coverage)
    for router in (
        editor_router(deployments, vocabulary, previewer),
        metrics_router(catalogue, attributes, fabric_view),
        queries_router(agent_proxy),
        insights_router(
            deployments, reconciler.status, explainer, decisions, proxy, catalogue, coverage
        ),
        decisions_router(deployments, decisions, proxy),
        health_router(health),
        placements_router(deployments, explainer, fog_view, fog_history, reconciler, proxy, clock),
        events_router(result_hub, topic_hub, event_limit, cursors, proxy, role),
        results_router(deployments, reader, followed_streams, limit, times, proxy, settled, role),
    ):
        app.include_router(router, dependencies=by_standby)
    return app


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


async def _proxied(_: Request, answered: Exception) -> Response:
    return cast("Proxied", answered).response


async def _unready_reasons(
    deployments: Deployments, reconciler: Reconciler, agent_url: str
) -> list[str]:
    if deployments.fenced:
        return [
            "another enabler has taken over this site: stop one of the two; this one takes over "
            "again when the other one has ended"
        ]
    if not deployments.is_loaded:
        outage = reconciler.outage()
        why = "" if outage is None else f": {outage}"
        return [f"the deployments at the storage agent {agent_url} are not read yet{why}"]
    try:
        await deployments.lease()
    except MistbowError as error:
        return [error.message]
    return []


def main(settings: EnablerSettings | None = None) -> None:
    """Serve the enabler until SIGTERM or Ctrl-C."""
    settings = settings or EnablerSettings()
    serve(create_app(settings), "enabler", settings.enabler_port, settings)
