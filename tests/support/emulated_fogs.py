"""Fogs of Fogify files in containers, for tests and benchmarks: real images, real links."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import docker  # type: ignore[import-untyped]
import docker.errors  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from analytics.client.enabler import EnablerClient
from deploy.image import NAME as IMAGE
from deploy.image import ROLES, ROOT, name_of_role
from fog_emulation import model
from fog_emulation.backend import start_fog
from fog_emulation.docker_backend import DockerBackend
from fog_emulation.fog_trust import FogTrust, trust_folder
from fog_emulation.plan import plan
from fog_emulation.scenario import EffectOutcome, run_scenario
from fog_emulation.services import ComposeService, load_services
from fog_emulation.timetable import ScenarioStep, StopNode, timetable
from grammar import ast, parse
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.errors import MistbowError
from mistbow.fabric import Fabric
from mistbow.streams.events import events_of
from mistbow.streams.schemas import RAW, decisions_stream
from tests.oracle.sql import POINTS
from tests.oracle.stored_points import compact_key, expected_values
from tests.support.conditions import eventually

TRUST = FogTrust(ROOT / ".mistbow" / "compose")


def _images_are_there(*names: str) -> bool:
    try:
        with closing(docker.from_env()) as client:
            return all(client.images.list(name) for name in names)
    except docker.errors.DockerException:
        return False


def daemon_runs() -> bool:
    """Return whether a Docker daemon answers."""
    try:
        with closing(docker.from_env()) as client:
            return bool(client.ping())
    except docker.errors.DockerException:
        return False


NEED_DOCKER = pytest.mark.skipif(
    "MISTBOW_NEEDS_DOCKER" not in os.environ and not daemon_runs(),
    reason="needs a Docker daemon",
)

NEED_IMAGE = [
    pytest.mark.skipif(
        "MISTBOW_NEEDS_DOCKER" not in os.environ
        and (os.geteuid() != 0 or not _images_are_there(IMAGE)),
        reason="needs root, a Docker daemon and the image: make images",
    ),
    pytest.mark.alone,
    pytest.mark.timeout(900),
]
"""The marks of tests that run a fog of the image."""

NEED_ROLE_IMAGES = pytest.mark.skipif(
    "MISTBOW_NEEDS_DOCKER" not in os.environ
    and not _images_are_there(*(name_of_role(IMAGE, role) for role in ROLES)),
    reason="needs the images of the roles: make role-images",
)

Adapt = Callable[[dict[str, ComposeService]], None]


@dataclass(frozen=True)
class FogFile:
    """A Fogify file, and where the host reaches the services of its fog.

    ``sites``: site -> the node with its agent, and a network in which the host reaches the node.
    ``enabler``: the same for the enabler. ``workers``: the names of the workers. ``replicas``: the
    numbers of replicas that differ from those in the file, by label. ``core``: the site at which
    people administer the fog.
    """

    path: Path
    sites: Mapping[str, tuple[str, str]]
    enabler: tuple[str, str]
    workers: frozenset[str]
    core: str
    replicas: Mapping[str, int] = field(default_factory=dict)

    @property
    def trust(self) -> FogTrust:
        """The identities and tokens of the fog."""
        return FogTrust(trust_folder(self.path))

    def model(self) -> model.FogModel:
        """Return the model in the file, with other numbers of replicas."""
        read = model.load(self.path)
        topology = [
            each.model_copy(update={"replicas": self.replicas.get(each.label, each.replicas)})
            for each in read.topology
        ]
        return read.model_copy(update={"topology": topology})


@dataclass(frozen=True)
class EmulatedFog:
    """A running fog, whose nodes are reached from the host."""

    file: FogFile
    backend: DockerBackend

    def token(self, site: str) -> str:
        """Return a token for the services of a site: its administrator's, or a reader's."""
        return self.file.trust.token(site, "admin" if site == self.file.core else "reader")

    def url(self, node: str, network: str, port: int) -> str:
        """Return the URL of a port of a node in a network."""
        return f"http://{self.backend.address(node, network)}:{port}"

    def agent_url(self, site: str) -> str:
        """Return the URL of a site's agent."""
        return self.url(*self.file.sites[site], 8300)

    def agent(self, site: str) -> AgentClient:
        """Return a client of a site's agent."""
        return AgentClient(self.agent_url(site), token=self.token(site))

    def enabler_url(self) -> str:
        """Return the URL of the enabler at its current address."""
        return self.url(*self.file.enabler, 8000)

    def enabler(self) -> EnablerClient:
        """Return a client of the enabler at its current address."""
        return EnablerClient(self.enabler_url(), token=self.token(self.file.core))

    def serves(self) -> bool:
        """Return whether the enabler answers, and has read its deployments."""
        client = self.enabler()
        try:
            return client.list() is not None
        except MistbowError:
            return False
        finally:
            client.close()

    def fabric(self) -> Fabric:
        """Return the fabric as the agent of the first site describes it."""
        agent = self.agent(next(iter(self.file.sites)))
        try:
            return agent.fabric()
        finally:
            agent.close()

    def has_joined(self) -> bool:
        """Return whether the fabric has exactly the sites and the workers of the file."""
        try:
            sites = {each.name: each for each in self.fabric().sites}
        except MistbowError:
            return False
        workers = {worker.name for each in sites.values() for worker in each.workers}
        return sites.keys() == self.file.sites.keys() and workers == self.file.workers

    def steps(self, scenario: str) -> tuple[ScenarioStep, ...]:
        """Return the steps of a scenario."""
        fog = self.file.model()
        return timetable(fog, plan(fog), scenario)

    def run(self, scenario: str) -> tuple[EffectOutcome, ...]:
        """Run a scenario; return the outcomes of its actions, with their times."""
        return run_scenario(self.backend, self.steps(scenario))

    def points(self, sites: Collection[str]) -> pa.Table:
        """Return the points of some sites as a table (``POINTS``) without late points."""
        tables = []
        for site in sites:
            agent = self.agent(site)
            table = agent.read("raw").table
            frontier_before = pa.repeat(pa.scalar(0, pa.int64()), table.num_rows)
            columns = [*(table[name] for name in POINTS.names[:-1]), frontier_before]
            tables.append(pa.table(columns, names=POINTS.names).cast(POINTS))
            agent.close()
        return pa.concat_tables(tables)

    def site_history(self) -> str:
        """Return the time (ms) of each site's first point, and the decisions about the sites, one
        a line.
        """
        agent, lines = self.agent(self.file.core), list[str]()
        for name in sorted(site.name for site in self.fabric().sites):
            site = agent.at(name)
            try:
                first = site.info(RAW).first
                rows = site.read(RAW, first, first + 1000, columns=["ts"]).table
                lines.append(f"{name}: first point at {pc.min(rows['ts'])}")
                for stream in (each.name for each in site.streams()):
                    if stream.startswith(decisions_stream("")):
                        decided = events_of(site.read(stream).table)
                        lines += [f"{stream}: {ts} {of} {event}" for ts, of, event in decided]
            except MistbowError as error:
                lines.append(f"{name}: {error.message}")
        agent.close()
        return "\n".join(lines)

    def is_complete(self, deployment: str, insights: set[str]) -> bool:
        """Return whether each insight has results, and none lacks a site."""
        client = self.enabler()
        try:
            rows = client.results(deployment).results
        finally:
            client.close()
        return {row.insight for row in rows if not row.missing} == insights

    def killed_sites(self, outcomes: Collection[EffectOutcome]) -> set[str]:
        """Return the sites of the nodes that a scenario killed; their points are gone."""
        sites = {node: site for site, (node, _) in self.file.sites.items()}
        effects = (each.effect for each in outcomes)
        killed = [each.node for each in effects if isinstance(each, StopNode)]
        # A node that a scenario added has the name of its site.
        return {sites.get(node, node) for node in killed}

    def check_results(
        self, deployment: str, text: str, first: int, end: int, killed: Collection[str] = ()
    ) -> int:
        """Assert that the results with times in (``first``, ``end``] equal those of the oracle.

        ``killed``: sites whose results are not compared. Returns the number of compared results.
        """
        client = self.enabler()
        try:
            rows = client.results(deployment, limit=100_000).results
        except MistbowError as error:
            raise AssertionError(error.message) from error
        finally:
            client.close()
        latest = max(row.ts for row in rows)
        assert latest >= end + 10_000, f"the latest result is of {latest - end} ms after the end"
        partial = [row for row in rows if {*row.missing} - {*killed} and row.ts <= end]
        assert not partial, (len(partial), partial[0], partial[-1])
        found = {
            (row.insight, compact_key(row.key), row.ts): row.value
            for row in rows
            if row.value is not None and first < row.ts <= end and row.key.get("site") not in killed
        }
        sites = [site for site in self.file.sites if site not in killed]
        right = expected_values(text, self.points(sites), first, end)
        assert found.keys() == right.keys(), (
            sorted(found.keys() - right.keys())[:5],
            sorted(right.keys() - found.keys())[:5],
        )
        unlike = {
            identity: (found[identity], value)
            for identity, value in right.items()
            if found[identity] != pytest.approx(value, rel=1e-9, abs=1e-9)
        }
        assert not unlike, (len(unlike), len(right), sorted(unlike.items())[:5])
        return len(right)

    def check_scenario(self, scenario: str, text: str, at_least_s: float = 0) -> int:
        """Deploy insights, run a scenario, and compare the results with those of the oracle.

        ``at_least_s``: the least time for which results are compared, from the first one. Returns
        the number of compared results.
        """
        eventually(self.serves, timeout=300, what="the enabler serves")
        eventually(self.has_joined, timeout=300, what="the fabric has all sites and workers")
        insights = {
            each.name for each in parse(text).statements if isinstance(each, ast.InsightStatement)
        }
        client = self.enabler()
        deployment = client.submit(text).deployment_id
        eventually(
            lambda: self.is_complete(deployment, insights),
            timeout=300,
            what="a result of each insight that lacks no site",
            pause=0.5,
        )
        first = max(insight.first_tick for insight in client.show(deployment).insights)
        client.close()
        outcomes = self.run(scenario)
        assert not [each for each in outcomes if each.error]
        until = first + round(at_least_s * 1000)
        eventually(
            lambda: system_clock() >= until, timeout=at_least_s + 1, what="the time", pause=0.5
        )
        end, killed = system_clock(), self.killed_sites(outcomes)
        try:
            return eventually(
                lambda: self.check_results(deployment, text, first, end, killed),
                timeout=300,
                what="all results equal the oracle's",
                pause=1,
            )
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.site_history()}") from error


@contextmanager
def running_fog(file: FogFile, name: str, adapt: Adapt = lambda _: None) -> Iterator[EmulatedFog]:
    """Run the fog of a file within the ``with``.

    ``adapt``: changes the services before the start.
    """
    fog = file.model()
    services = load_services(file.path, fog.replicas)
    adapt(services)
    backend = DockerBackend(name, plan(fog), services, file.trust)
    start_fog(backend)
    try:
        yield EmulatedFog(file, backend)
    finally:
        backend.down()
