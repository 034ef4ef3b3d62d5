"""Sites that have names, with a name server that answers some names late.

The agents are processes in network namespaces, with the system's own resolver.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from analytics.client.enabler import EnablerClient
from analytics.insight_models import Result
from fog_emulation.topology import Shape
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.errors import UnavailableError
from tests.fog_emulation.namespaces import needs_namespaces, running_fog
from tests.support.conditions import eventually
from tests.support.fogs import NETWORKS, PORT, TOKEN, Fog, plan
from tests.support.programs import needs
from tests.support.threads import in_threads

pytestmark = [needs_namespaces, needs("unshare")]

SLOW_S = 10.0
MAX_ABSENCE_S = 15.0
"""The time for which a healthy site may be missing while links of other sites fail."""

CUT_MS = 300_000
"""The duration (ms) of the cut of a link, in the test of results."""

_MOUNTED = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'


class NamedFog(Fog):
    """Three sites whose agents know each other by name.

    The name of c is answered late. ``gone.test`` is a peer of b whose name does not exist, which is
    answered late too.
    """

    def spawn(
        self, site: str, argv: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start a process at a site."""
        return self._backend.spawn(site, argv, env=environment)

    def _host(self, site: str, network: str) -> str:
        return f"{site}.test"

    def _settings(self, site: str) -> dict[str, str]:
        settings = super()._settings(site)
        if site == "b":
            settings["MISTBOW_PEERS"] = f"http://gone.test:{PORT}"
        return settings

    def _command(self, site: str, argv: list[str]) -> list[str]:
        address = self._backend.address
        names: dict[str, tuple[str | None, float]] = {
            f"{other}.test": (address(other, network), SLOW_S if other == "c" else 0.0)
            for network in NETWORKS[site]
            for other, networks in NETWORKS.items()
            if network in networks
        }
        names["gone.test"] = (None, SLOW_S)
        server = [sys.executable, "-m", "tests.support.name_server", json.dumps(names)]
        self._backend.spawn(site, server)
        resolv = Path(argv[-1]).with_name(f"{site}.conf")
        # One query of a name: the resolver waits longer than the name server does.
        resolv.write_text("nameserver 127.0.0.1\noptions timeout:30 attempts:1\n")
        return ["unshare", "--mount", "sh", "-c", _MOUNTED, str(resolv), *argv]


@pytest.fixture(scope="module")
def fog(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NamedFog]:
    with running_fog(plan()) as backend:
        yield NamedFog(backend, tmp_path_factory.mktemp("sites"))


def test_slow_name_is_reached_and_missing_name_is_reported(fog: NamedFog) -> None:
    eventually(lambda: fog.reached("b") == {"a", "b", "c"}, timeout=60, what="b reaches all")
    with fog.inside("b"):
        answer = fog.readyz().json()
    assert answer["status"] == "ready"
    (warning,) = answer["warnings"]
    assert warning.startswith("the name gone.test has not resolved since 20")


@pytest.mark.soak
def test_site_returns_soon_while_other_names_are_slow(fog: NamedFog) -> None:
    eventually(lambda: "a" in fog.reached("b"), what="b reaches a")
    for _ in range(2):
        fog.shape("a", Shape(loss=1.0))
        eventually(lambda: "a" not in fog.reached("b"), what="b has noticed")
        # Longer than a look-up of the slow names: there is one after the other all the time.
        until = time.monotonic() + SLOW_S + 2
        while time.monotonic() < until:
            assert "a" not in fog.reached("b")
        fog.shape("a", Shape())
        eventually(lambda: "a" in fog.reached("b"), timeout=10, what="b reaches a again")
        eventually(lambda: "b" in fog.reached("a"), timeout=10, what="a reaches b again")


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(2 * SLOW_S, id="short"),
        pytest.param(300, marks=[pytest.mark.soak, pytest.mark.timeout(600)], id="long"),
    ],
)
def test_healthy_sites_stay_reachable_while_one_of_three_links_is_cut(
    fog: NamedFog, seconds: float
) -> None:
    eventually(lambda: fog.reached("b") == {"a", "b", "c"}, timeout=60, what="b reaches all")
    fog.shape("a", Shape(loss=1.0))
    eventually(lambda: "a" not in fog.reached("b"), what="b has noticed")
    missing_since: dict[str, float] = {}
    longest = 0.0
    until = time.monotonic() + seconds
    while (now := time.monotonic()) < until:
        for site, other in (("b", "c"), ("c", "b")):
            if other in fog.reached(site):
                missing_since.pop(site, None)
            else:
                longest = max(longest, now - missing_since.setdefault(site, now))
    fog.shape("a", Shape())
    eventually(lambda: fog.reached("b") == {"a", "b", "c"}, timeout=60, what="b reaches all again")
    print(f"longest absence of a healthy site: {longest:.1f} s")
    assert longest <= MAX_ABSENCE_S


@contextmanager
def sending(fog: NamedFog, metric: str) -> Iterator[None]:
    """Send a point to each site five times a second, within the ``with``."""

    def send(site: str, stopped: threading.Event) -> None:
        with fog.at(site) as agent:
            while not stopped.wait(0.2):
                with suppress(UnavailableError):
                    agent.put([Point(metric, f"{site}-1", system_clock(), 1.0)])

    with in_threads(*(partial(send, site) for site in NETWORKS)):
        yield


@contextmanager
def analytics(fog: NamedFog, site: str, home: Path) -> Iterator[EnablerClient]:
    """Run a worker and an enabler at a site, within the ``with``; yield a client of the enabler.

    The calling thread is in the site's namespace meanwhile.
    """
    settings = {
        "MISTBOW_HOME": str(home),
        "MISTBOW_NODE": f"worker-{site}",
        "MISTBOW_TOKEN": TOKEN,
        "MISTBOW_AGENT_URL": f"http://127.0.0.1:{PORT}",
        "MISTBOW_WORKER_PORT": "8100",
        "MISTBOW_ENABLER_PORT": "8000",
        "MISTBOW_DRIVER_MEMORY": "512m",
        "MISTBOW_LOG_LEVEL": "warning",
    }
    processes = [
        fog.spawn(site, [sys.executable, "-m", package], {**os.environ, **settings})
        for package in ("analytics_worker", "analytics_enabler")
    ]
    with fog.inside(site):
        client = EnablerClient("http://127.0.0.1:8000", TOKEN)
        try:
            eventually(client.fog, timeout=60, what="the enabler answers")
            eventually(lambda: client.fog().nodes, timeout=90, what="the worker is announced")
            yield client
        finally:
            client.close()
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(60)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_results_lack_no_healthy_site_while_one_of_three_links_is_cut(
    fog: NamedFog, tmp_path: Path
) -> None:
    eventually(lambda: fog.reached("b") == {"a", "b", "c"}, timeout=60, what="b reaches all")
    with sending(fog, "seen"), analytics(fog, "b", tmp_path) as enabler:
        query = "number = COMPUTE COUNT(seen, 3 SECONDS) BY site EVERY 1 SECOND"
        deployment = enabler.submit(query).deployment_id

        def rows() -> list[Result]:
            return enabler.results(deployment, limit=10_000).results

        def is_complete() -> bool:
            return {each.key["site"] for each in rows()[-3:] if not each.missing} == {*NETWORKS}

        eventually(is_complete, timeout=120, what="results of all sites")
        fog.shape("a", Shape(loss=1.0))
        cut = system_clock()
        # The duration of the cut is what is tested.
        eventually(lambda: system_clock() > cut + CUT_MS, timeout=CUT_MS / 1000 + 30, pause=1.0)
        found = [each for each in rows() if each.ts > cut + MAX_ABSENCE_S * 1000]
        fog.shape("a", Shape())
    ticks = {each.ts for each in found}
    assert max(ticks) > cut + CUT_MS - MAX_ABSENCE_S * 1000
    assert len(ticks) > 0.9 * (max(ticks) - min(ticks)) / 1000
    lacking = [each.ts for each in found if not {"b", "c"}.isdisjoint(each.missing)]
    assert not lacking, f"{len(lacking)} results lack a healthy site"
    for site in ("b", "c"):
        assert ticks == {each.ts for each in found if each.key["site"] == site}


def test_unreachable_site_is_reported_with_its_unresolved_name(fog: NamedFog) -> None:
    # a has no route to c, but reaches c by way of b; its name server does not know the name.
    eventually(lambda: fog.reached("a") == {"a", "b", "c"}, timeout=60, what="a reaches all")
    fog.shape("b", Shape(loss=1.0))
    eventually(lambda: fog.reached("a") == {"a"}, what="a has noticed")
    with fog.at("a") as at_a:
        message = r"no other site reaches it: the name c\.test has not resolved since"
        with pytest.raises(UnavailableError, match=message):
            at_a.at("c").claim("metadata")
        reasons = {each.node: each.missing for each in at_a.get(nodes=[]) if each.missing}
    fog.shape("b", Shape())
    assert "the name c.test has not resolved since" in str(reasons["node-c"])
    assert "has not resolved" not in str(reasons["node-b"])
