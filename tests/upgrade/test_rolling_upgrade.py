"""A rolling upgrade under load: service by service, from the former version to this one."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from analytics.client.enabler import EnablerClient
from fog_emulation.fog_trust import FogTrust, NodeTrust
from ignite_server.ports import free_ports
from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.errors import MistbowError
from tests.support.conditions import eventually
from tests.support.oracle_results import await_oracle
from tests.support.sender import Sender, check_stored
from tests.support.services import Service
from tests.support.traffic import Traffic
from tests.upgrade.former_version import (
    COMMIT_WITH_IDENTITIES,
    FORMER_COMMIT,
    command_of_former_version,
    unpack_former_version,
)

SITES = ("cloud", "edge")
TRUSTS = (
    NodeTrust("cloud", ("agent", "worker", "enabler"), ("*",)),
    NodeTrust("edge", ("agent", "worker")),
)
"""The rights of the sites: the services of the edge have rights at their own site only."""

METRIC = "tram.load"
QUERIES = f"""
average = COMPUTE AVG({METRIC}, 3 SECONDS) BY entityID EVERY 1 SECOND;
number = COMPUTE RUNNING_COUNT({METRIC}) BY entityID EVERY 1 SECOND;
"""
_STEP_S = 120.0

pytestmark = [
    pytest.mark.alone,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("processes"),
]


class UpgradedFog:
    """Two sites whose services run in the former version, until ``upgrade`` restarts them.

    ``trust``: issues the identities and tokens of the fog; None: the fog has none.
    """

    def __init__(
        self, home: Path, former: tuple[str, ...], stack: ExitStack, trust: FogTrust | None
    ) -> None:
        self._former = former
        self._stack = stack
        self._trust = trust
        self._ports = {
            (site, role): port
            for site in SITES
            for role, port in zip(("agent", "worker", "enabler"), free_ports(3), strict=True)
        }
        self._services: dict[tuple[str, str], tuple[Service, Service]] = {}
        if trust is not None:
            for each in TRUSTS:
                _write_files(home / each.site, trust.files(each))
        for site in SITES:
            ignite = stack.enter_context(IgniteServer(home / site, durability="log"))
            settings = self._settings(home, site) | {"ignite_port": ignite.port}
            self._start(site, "agent", "storage_agent", settings)
            self._start(site, "worker", "analytics_worker", settings)
        self._start(
            "cloud", "enabler", "analytics_enabler", settings | self._settings(home, "cloud")
        )
        self.agents = {
            site: AgentClient(self._url(site, "agent"), self.token(site)) for site in SITES
        }
        self.enabler = EnablerClient(self._url("cloud", "enabler"), token=self.token("cloud"))
        for client in (*self.agents.values(), self.enabler):
            stack.callback(client.close)

    def upgrade(self, site: str, role: str) -> None:
        """Stop a service of the former version, and start this version in its place."""
        former, present = self._services[site, role]
        former.stop()
        present.start()
        self._stack.callback(present.stop)

    def agent_url(self, site: str) -> str:
        return self._url(site, "agent")

    def token(self, site: str, role: str | None = None) -> str | None:
        """Return a token of a site; ``role`` None: the administrator's or, at an edge, a reader's.

        Returns None if the fog has no tokens.
        """
        role = role or ("admin" if site == "cloud" else "reader")
        return None if self._trust is None else self._trust.token(site, role)

    def _url(self, site: str, role: str) -> str:
        return f"http://127.0.0.1:{self._ports[site, role]}"

    def _settings(self, home: Path, site: str) -> dict[str, object]:
        (other,) = set(SITES) - {site}
        return {
            "home": home / site,
            "node": f"node-{site}",
            "site": site,
            "agent_url": self._url(site, "agent"),
            "worker_url": self._url(site, "worker"),
            "peers": self._url(other, "agent"),
            "spark_master": "local[2]",
            "driver_memory": "512m",
            "durability": "log",
            "collect_routes": "false",
            "log_level": "warning",
        }

    def _start(self, site: str, role: str, module: str, settings: Mapping[str, object]) -> None:
        port = self._ports[site, role]
        given = {**settings, f"{role}_port": port}
        if self._trust is not None:
            files = Path(str(settings["home"])) / "trust"
            given |= {
                "identity_file": files / f"{role}.identity", "tokens_file": files / "tokens.json"
            }  # fmt: skip
        former, present = (
            Service(module, port, given, prefix, token=self.token(site))
            for prefix in (self._former, ())
        )
        self._services[site, role] = (former, present)
        former.start()
        self._stack.callback(former.stop)


def _write_files(home: Path, files: Mapping[str, bytes]) -> None:
    """Write identities and tokens to the folder ``trust`` of a site's home."""
    folder = home / "trust"
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)


@pytest.fixture(
    params=[FORMER_COMMIT, COMMIT_WITH_IDENTITIES], ids=["without identities", "with identities"]
)
def fog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[UpgradedFog]:
    former, home = tmp_path / "former", tmp_path / "fog"
    unpack_former_version(former, request.param)
    trust = FogTrust(tmp_path / "trust") if request.param == COMMIT_WITH_IDENTITIES else None
    with ExitStack() as stack:
        yield UpgradedFog(home, command_of_former_version(former), stack, trust)


@pytest.mark.soak
def test_no_row_is_lost_by_a_rolling_upgrade(fog: UpgradedFog) -> None:
    with ExitStack() as stack:
        senders = [
            stack.enter_context(
                Sender(fog.agent_url(site), _traffic(site), fog.token(site, "sender"))
            )
            for site in SITES
        ]
        deployment = fog.enabler.submit(QUERIES, name="tram").deployment_id
        _await_results(fog, deployment, system_clock())
        # Half of the services are of the former version after the first two steps.
        steps = [("edge", "agent"), ("edge", "worker"), ("cloud", "agent"), ("cloud", "worker")]
        for site, role in (*steps, ("cloud", "enabler")):
            fog.upgrade(site, role)
            _await_results(fog, deployment, system_clock())
            print(f"{role} of {site} is upgraded, and results go on")
        end = system_clock()
        _await_results(fog, deployment, end)
    number = check_stored(senders, fog.agents.values(), METRIC)
    rows = await_oracle(fog.enabler, deployment, fog.agents.values(), METRIC, end)
    print(f"{number} points and {rows} results: none missing, doubled or wrong")


def _traffic(site: str) -> Traffic:
    entities = tuple(f"{site}-{number}" for number in range(3))
    return Traffic(metrics=(METRIC,), entities=entities, rate=100, seed=1 + SITES.index(site))


def _await_results(fog: UpgradedFog, deployment: str, after: int) -> None:
    """Wait until both sites have results of a tick after a time (ms)."""

    def found() -> bool:
        try:
            rows = fog.enabler.results(deployment, start=after).results
        except MistbowError as error:
            raise AssertionError(error.message) from error
        sites = {str(row.key["entityID"]).partition("-")[0] for row in rows if row.ts > after}
        return sites == set(SITES)

    eventually(found, timeout=_STEP_S, what=f"results after {after}")
