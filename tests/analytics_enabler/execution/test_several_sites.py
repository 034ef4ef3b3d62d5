"""Insights over two sites: placement of their fragments while workers and schedulers fail."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from analytics.client.enabler import EnablerClient
from analytics.insight_models import Accepted, DeploymentStatus
from analytics.plan.fragments import Fragment, Merge, Partial, StreamLocation, Whole
from ignite_server.ports import free_ports
from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.streams.schemas import RESULT_ROWS
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from tests.analytics_enabler.conftest import running_enabler
from tests.analytics_enabler.scheduling.conftest import installed, third_party  # noqa: F401 - fixtures
from tests.analytics_enabler.spark_worker import (
    TEST_TIMEOUT_S,
    MakeWorker,
    SparkWorker,
    eventually,
)
from tests.support.http_server import served
from tests.support.ignite import empty

pytestmark = pytest.mark.timeout(TEST_TIMEOUT_S)

MEAN = "mean = COMPUTE AVG(cpu, 10 s) BY region EVERY 5 s"
PEAK = "peak = COMPUTE MAX(cpu, 10 s) BY region EVERY 5 s"
LONG = "long = COMPUTE AVG(cpu, 1 MINUTE) BY region EVERY 5 s"
HERE = "here = COMPUTE AVG(cpu, 10 s) WHEN site == 'edge' EVERY 5 s"


@dataclass
class TwoSites:
    """Two sites: ``cloud`` with an enabler and two workers, ``edge`` with one worker."""

    home: Path
    cloud_url: str
    edge_url: str
    workers: dict[str, SparkWorker]
    edge_agent: ExitStack

    def start(self, *names: str) -> None:
        """Start workers at their sites, and wait until the cloud's agent has heard of them."""
        for name in names:
            self.workers[name].start(self.edge_url if name.startswith("edge") else self.cloud_url)
        eventually(lambda: self.announced() >= set(names), what=f"{names} are announced")

    def announced(self) -> set[str]:
        """Return the names of the workers that the cloud's agent knows."""
        with closing(AgentClient(self.cloud_url)) as cloud:
            return {worker.name for site in cloud.fabric().sites for worker in site.workers}

    def started(self) -> dict[str, int]:
        """Return how many queries each worker has started."""
        return {name: len(worker.started) for name, worker in self.workers.items()}

    @contextmanager
    def enabler(self) -> Iterator[EnablerClient]:
        with running_enabler(self.cloud_url, self.home) as url:
            client = EnablerClient(url)
            yield client
            client.close()

    def running(self, kind: type[Fragment]) -> dict[str, list[Fragment]]:
        """Return the fragments of type ``kind`` that live workers run: worker -> fragments."""
        found = {name: worker.fragments_of(kind) for name, worker in self.workers.items()}
        return {name: fragments for name, fragments in found.items() if fragments}

    def merge(self) -> tuple[str, Merge]:
        """Wait until exactly one worker runs a merge; return the worker's name and the merge."""
        ((name, (merge,)),) = _waited(lambda: self.running(Merge)).items()
        assert isinstance(merge, Merge)
        return name, merge

    def merged_in_the_cloud(self) -> list[list[str]]:
        """Return the sites that each merge in the cloud reads: one list of sites for each merge.

        Merges at the edge are not included, because an edge with cut links may run other merges.
        """
        found = [self.running(Merge).get(name, []) for name in ("cloud-a", "cloud-b")]
        return [[s.site for s in m.sources] for each in found for m in each if isinstance(m, Merge)]

    def partials(self) -> dict[str, str]:
        """Return the running partial fragments: id -> text of the form ``WORKER SITE``."""
        return {
            part.id: f"{name} {part.source.site}"
            for name, parts in self.running(Partial).items()
            for part in parts
            if isinstance(part, Partial)
        }


def lifecycle(enabler: EnablerClient, deployment_id: str) -> str:
    return lifecycle_of(enabler.show(deployment_id))


def lifecycle_of(deployment: DeploymentStatus) -> str:
    assert deployment.lifecycle is not None
    return deployment.lifecycle.state


def _waited(probe):  # type: ignore[no-untyped-def]
    return eventually(lambda: found if len(found := probe()) == 1 else None)


@pytest.fixture
def unstaffed_fog(
    make_worker: MakeWorker,
    agent_settings: AgentSettings,
    ignite_server: IgniteServer,
    other_ignite: IgniteServer,
    tmp_path: Path,
) -> Iterator[TwoSites]:
    """Yield the fog, whose workers have not started."""
    cloud_port, edge_port = free_ports(2)
    urls = [f"http://127.0.0.1:{port}" for port in (cloud_port, edge_port)]
    empty(other_ignite)

    def agent(site: str, url: str, ignite: int, peers: str) -> AgentSettings:
        return AgentSettings(
            home=tmp_path / site,
            node=f"{site}-1",
            site=site,
            ignite_port=ignite,
            agent_url=url,
            peers=peers,
        )

    cloud = agent("cloud", urls[0], ignite_server.port, urls[1])
    edge = agent("edge", urls[1], other_ignite.port, urls[0])
    workers = {name: make_worker(name) for name in ("cloud-a", "cloud-b", "edge-a")}
    with ExitStack() as stack:
        stack.enter_context(served(create_app(cloud), cloud_port))
        edge_agent = stack.enter_context(ExitStack())
        edge_agent.enter_context(served(create_app(edge), edge_port))
        with closing(AgentClient(urls[0])) as client:
            eventually(
                lambda: len([s for s in client.fabric().sites if s.reachable]) == 2,
                what="both sites are there",
            )
        for worker in workers.values():
            stack.enter_context(worker)
        yield TwoSites(tmp_path, *urls, workers, edge_agent)


@pytest.fixture
def fog(unstaffed_fog: TwoSites) -> TwoSites:
    unstaffed_fog.start(*unstaffed_fog.workers)
    return unstaffed_fog


def test_partials_run_at_their_site_and_merge_reads_them(fog: TwoSites) -> None:
    with fog.enabler() as enabler:
        enabler.submit(f"{MEAN}; {HERE}")
        _, merge = fog.merge()
        assert merge.target == StreamLocation("cloud", "results/all.fair")
        assert merge.decisions == StreamLocation("cloud", "decisions/all.fair")
        assert [source.site for source in merge.sources] == ["cloud", "edge"]
        partials = eventually(lambda: found if len(found := fog.partials()) == 2 else None)
        assert sorted(at.split()[1] for at in partials.values()) == ["cloud", "edge"]
        assert {source.stream for source in merge.sources} == {f"panes/{one}" for one in partials}
        for at in partials.values():
            worker, site = at.split()
            assert worker.startswith(site)
        ((worker, (whole,)),) = _waited(lambda: fog.running(Whole)).items()
        assert worker == "edge-a"
        assert isinstance(whole, Whole)
        assert whole.source == StreamLocation("edge", "raw")
        assert whole.target == StreamLocation("edge", "results/site-edge.fair")


def test_merge_of_dead_worker_moves(fog: TwoSites) -> None:
    with fog.enabler() as enabler:
        mean = enabler.submit(MEAN).deployment_id
        at, merge = fog.merge()
        fog.workers[at].kill()
        _waited(lambda: {n: f for n, f in fog.running(Merge).items() if n != at})
        assert fog.merge()[1] == merge
        moves = [each for each in enabler.decisions(mean) if each.kind == "fragment_moved"]
        assert [each.why.startswith(f"the worker {at} ") for each in moves] == [True]
        eventually(lambda: "worker_dead" in {each.kind for each in enabler.decisions()})
        fog.start(at)
        eventually(lambda: len(fog.partials()) == 2)


@pytest.mark.soak
def test_hanging_worker_delays_no_other(fog: TwoSites) -> None:
    with fog.enabler() as enabler:
        fog.workers["edge-a"].hang()
        fog.workers["edge-a"].await_requests(1)
        enabler.submit(MEAN)
        fog.merge()
        fog.workers["edge-a"].wake()
        eventually(lambda: len(fog.partials()) == 2)


@pytest.mark.soak
def test_old_partials_run_until_handover_of_merge(
    fog: TwoSites,
) -> None:
    with fog.enabler() as enabler:
        enabler.submit(MEAN)
        fog.merge()
        old = set(eventually(lambda: found if len(found := fog.partials()) == 2 else None))
        for worker in fog.workers.values():
            worker.hold_queries()
        enabler.submit(PEAK)
        eventually(lambda: len(fog.merge()[1].plan.insights) == 2)
        # Another function of the same panes needs no new partials.
        assert set(fog.partials()) == old
        enabler.submit(LONG)
        eventually(lambda: len(fog.partials()) == 4)
        new = set(fog.partials()) - old
        # Each worker has a reconciler of its own: the merge may come after the partials.
        panes = {f"panes/{one}" for one in new}
        eventually(lambda: {source.stream for source in fog.merge()[1].sources} == panes)
        for worker in fog.workers.values():
            worker.release_queries()
        eventually(lambda: set(fog.partials()) == new)


def test_restarted_enabler_retains_versions_and_placement(fog: TwoSites) -> None:
    with fog.enabler() as enabler:
        deployment_id = enabler.submit(MEAN).deployment_id
        fog.merge()
        eventually(lambda: len(fog.partials()) == 2)
    before = fog.started()
    with fog.enabler() as enabler:
        eventually(lambda: enabler.show(deployment_id).status in ("starting", "running"))
        enabler.submit(HERE)
        eventually(lambda: fog.running(Whole))
        assert fog.started() == {**before, "edge-a": before["edge-a"] + 1}
        enabler.delete(deployment_id)
        eventually(lambda: not fog.partials() and not fog.running(Merge))


@pytest.mark.soak
@pytest.mark.usefixtures("third_party")
def test_failing_third_party_scheduler_changes_no_placement(
    fog: TwoSites, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MISTBOW_SCHEDULER_SETTINGS", '{"roomiest": {"prefer": "edge-a"}}')
    with fog.enabler() as enabler:
        enabler.submit(f"{HERE} WITH SCHEDULER=roomiest")
        ((worker, (good,)),) = _waited(lambda: fog.running(Whole)).items()
        assert (worker, good.id) == ("edge-a", "site-edge.roomiest")
        # It places all tasks on one node, which violates their pins.
        nonsense = enabler.submit(f"{PEAK} WITH SCHEDULER=roomiest").deployment_id
        eventually(lambda: "invalid placement" in (enabler.show(nonsense).error or ""))
        assert fog.running(Whole) == {"edge-a": [good]}
        enabler.submit(MEAN)
        at, merge = fog.merge()
        for scheduler, problem in (
            ("raising", "the stars stand badly"),
            ("silent", "the process exited with code 0"),
            ("endless", "no answer within 5 s"),
        ):
            failing = enabler.submit(f"{PEAK} WITH SCHEDULER={scheduler}").deployment_id
            eventually(lambda d=failing, p=problem: p in (enabler.show(d).error or ""), timeout=60)
            assert enabler.show(failing).status == "waiting for a worker"
            assert fog.merge() == (at, merge)
            assert fog.running(Whole) == {"edge-a": [good]}
            enabler.delete(failing)


def test_results_of_two_sites_are_merged_and_missing_site_is_named(
    unstaffed_fog: TwoSites,
) -> None:
    fog = unstaffed_fog
    cloud = AgentClient(fog.cloud_url)
    with fog.enabler() as enabler:
        deployment_id = enabler.submit(f"{MEAN}; {HERE}").deployment_id
        mean, here = enabler.show(deployment_id).insights
        beginning = enabler.results(deployment_id).next
        tick = mean.first_tick
        for at, group, uid in (
            (cloud, "all.fair", mean.uid),
            (cloud.at("edge"), "site-edge.fair", here.uid),
        ):
            row = {"insight": uid, "key": "{}", "ts": tick, "value": 1.0, "revision": 0}
            rows = pa.RecordBatch.from_pylist([{**row, "computed_at": tick}], schema=RESULT_ROWS)
            at.create_stream(f"results/{group}", RESULT_ROWS)
            at.append(f"results/{group}", rows)
        answer = enabler.results(deployment_id)
        assert [result.insight for result in answer.results] == ["here", "mean"]
        assert answer.missing_sites == []
        assert re.fullmatch(r"cloud/all\.fair=1@\d+,site-edge\.fair=1@\d+", answer.next)
        followed = enabler.follow(deployment_id, after=beginning)
        assert {next(followed).insight, next(followed).insight} == {"mean", "here"}
        fog.edge_agent.close()
        answer = eventually(
            lambda: found if (found := enabler.results(deployment_id)).missing_sites else None
        )
        assert [result.insight for result in answer.results] == ["mean"]
        assert answer.missing_sites == ["edge"]
        assert re.fullmatch(r"cloud/all\.fair=1@\d+,site-edge\.fair@\d{13}", answer.next)
        eventually(lambda: not all(site.reachable for site in cloud.fabric().sites))
        cloud.operations.forget_site("edge")
        fog.start("cloud-a")
        eventually(lambda: fog.merged_in_the_cloud() == [["cloud"]])


def test_error_names_the_unreachable_site_and_what_happens_there(fog: TwoSites) -> None:
    with fog.enabler() as enabler:
        mean = enabler.submit(MEAN).deployment_id
        here = enabler.submit(HERE).deployment_id
        eventually(lambda: len(fog.partials()) == 2 and fog.running(Whole))
        eventually(lambda: lifecycle(enabler, mean) == "running")
        fog.edge_agent.close()
        cut = "the site edge is unreachable since 20"
        for each, consequence in (
            (here, "Its worker edge-a continues alone, and its results are readable when it is"),
            (mean, "Results lack its points, and are corrected when it is back."),
        ):
            shown = eventually(
                lambda d=each: found if cut in ((found := enabler.show(d)).error or "") else None
            )
            assert ": its agent does not answer the site cloud. " in (shown.error or "")
            assert consequence in (shown.error or "")
            assert shown.insights[0].error == shown.error
        # While the site is only suspected, the answers of its worker still count.
        shown = eventually(
            lambda: found if lifecycle_of(found := enabler.show(here)) == "degraded" else None
        )
        assert lifecycle(enabler, mean) == "degraded"
        for cut_off in (shown, enabler.show(mean)):
            assert cut_off.lifecycle is not None
            assert cut_off.lifecycle.since is not None
            ((missing,),) = (each.missing_sites for each in cut_off.insights)
            assert (missing.site, missing.since is None) == ("edge", False)
            assert missing.why.startswith("the site edge is unreachable: its agent does not answer")
        assert enabler.show(mean).status == "running"
        kinds = {each.subject: each.kind for each in enabler.decisions()}
        assert kinds["edge"] == "site_missing"


def test_error_names_a_site_whose_panes_are_late(fog: TwoSites) -> None:
    fog.workers["edge-a"].hold_queries()
    fog.start("cloud-a", "edge-a")
    with fog.enabler() as enabler:
        mean = enabler.submit(MEAN).deployment_id

        def is_late() -> bool:
            (insight,) = enabler.show(mean).insights
            assert "the panes of the site edge are late since 20" in (insight.error or "")
            assert [each.site for each in insight.missing_sites] == ["edge"]
            return True

        eventually(is_late, timeout=60, what="the late site is named")
        fog.workers["edge-a"].release_queries()
        eventually(lambda: enabler.show(mean).error is None, timeout=60, what="it is there")


def test_ended_insight_is_computed_until_no_site_is_missing(fog: TwoSites) -> None:
    with fog.enabler() as enabler:
        mean = enabler.submit(MEAN).deployment_id
        eventually(lambda: len(fog.partials()) == 2)
        fog.edge_agent.close()
        eventually(lambda: enabler.show(mean).insights[0].missing_sites)
        enabler.amend(mean, MEAN.replace("AVG", "MAX"))
        eventually(lambda: [each.state for each in enabler.show(mean).ended] == ["degraded"])
        assert lifecycle(enabler, mean) == "degraded"
        cloud = AgentClient(fog.cloud_url)
        cloud.operations.forget_site("edge")
        eventually(lambda: [each.state for each in enabler.show(mean).ended] == ["stopped"])


@pytest.mark.soak
def test_ended_insight_states_a_site_that_never_returned(
    fog: TwoSites, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analytics_enabler.execution.lifecycle.MAX_ABSENCE_MS", 2000)
    with fog.enabler() as enabler:
        mean = enabler.submit(MEAN).deployment_id
        eventually(lambda: len(fog.partials()) == 2)
        fog.edge_agent.close()
        eventually(lambda: enabler.show(mean).insights[0].missing_sites)
        enabler.amend(mean, MEAN.replace("AVG", "MAX"))
        ended = eventually(lambda: enabler.show(mean).ended)
        assert ended[0].missing_sites == []
        eventually(lambda: [each.state for each in enabler.show(mean).ended] == ["stopped"])
        assert enabler.show(mean).ended[0].missing_sites == ["edge"]
        assert enabler.show(mean).insights[0].missing_sites[0].site == "edge"


def about_sites(accepted: Accepted) -> list[str]:
    """Return the warnings about sites; other warnings are about metrics without points."""
    return [each.message for each in accepted.warnings if "the site " in each.message]


def without_edge_worker(fog: TwoSites) -> AgentClient:
    """End the worker at the edge; return a client of the cloud's agent, which has noticed it."""
    cloud = AgentClient(fog.cloud_url)
    fog.workers["edge-a"].stop()
    eventually(
        lambda: [len(site.workers) for site in cloud.fabric().sites] == [2, 0],
        what="the edge has no worker",
    )
    return cloud


def test_points_of_site_without_worker_are_read_by_worker_elsewhere(fog: TwoSites) -> None:
    without_edge_worker(fog)
    with fog.enabler() as enabler:
        eventually(lambda: "at cloud reads its points" in enabler.explain_text(MEAN))
        accepted = enabler.submit(f"{MEAN}; {HERE}")
        (warning,) = about_sites(accepted)
        pattern = r"the site edge has no worker; the worker cloud-. at cloud reads its points"
        assert re.fullmatch(pattern + r" \(\d+ ms away\)", warning)
        eventually(lambda: len(fog.partials()) == 2)
        assert sorted(at.split()[1] for at in fog.partials().values()) == ["cloud", "edge"]
        _, merge = fog.merge()
        # The panes are in the cloud: a cut of the edge does not delay the merge.
        assert [(s.site, s.data_site) for s in merge.sources] == [
            ("cloud", "cloud"),
            ("cloud", "edge"),
        ]
        ((_, (whole,)),) = _waited(lambda: fog.running(Whole)).items()
        assert isinstance(whole, Whole)
        assert (whole.source.site, whole.target.site) == ("edge", "edge")
        for insight in enabler.show(accepted.deployment_id).insights:
            (read,) = insight.remote_reads
            assert (read.site, read.worker_site) == ("edge", "cloud")
            assert read.reason == "the site has no worker"
        assert re.search(pattern, enabler.explain_text(PEAK))
        edges = {e.source: e for e in enabler.explain(PEAK).groups[0].edges}
        assert not edges["edge/raw"].is_local
        before = fog.partials()

        # A worker at the edge takes over, with the same stream of panes.
        fog.start("edge-a")
        moved = eventually(
            lambda: found if "edge-a edge" in (found := fog.partials()).values() else None
        )
        assert set(moved) == set(before)
        assert fog.merge()[1] == merge
        eventually(lambda: set(fog.running(Whole)) == {"edge-a"})
        shown = enabler.show(accepted.deployment_id)
        assert not any(insight.remote_reads for insight in shown.insights)
        assert about_sites(enabler.submit("more = COMPUTE AVG(cpu, 10 s) EVERY 5 s")) == []


def test_points_of_dead_workers_site_are_read_by_worker_elsewhere(fog: TwoSites) -> None:
    with fog.enabler() as enabler:
        enabler.submit(f"{MEAN}; {HERE}")
        before = set(eventually(lambda: found if len(found := fog.partials()) == 2 else None))
        fog.workers["edge-a"].kill()
        moved = eventually(lambda: found if len(found := fog.partials()) == 2 else None)
        assert set(moved) == before
        assert sorted(at.split()[1] for at in moved.values()) == ["cloud", "edge"]
        eventually(lambda: set(fog.running(Whole)) <= {"cloud-a", "cloud-b"} and fog.running(Whole))


@pytest.mark.soak
def test_site_that_is_cut_off_from_its_reader_is_named(fog: TwoSites) -> None:
    without_edge_worker(fog)
    with fog.enabler() as enabler:
        eventually(lambda: "at cloud reads its points" in enabler.explain_text(MEAN))
        mean = enabler.submit(MEAN).deployment_id
        eventually(lambda: lifecycle(enabler, mean) == "running")
        fog.edge_agent.close()

        def degraded() -> DeploymentStatus:
            shown = enabler.show(mean)
            assert re.fullmatch(
                r"the site edge is unreachable since 20\S+: its agent does not answer the site "
                r"cloud\. Results lack its later points, and are corrected when it is back\.",
                shown.error or "",
            )
            assert lifecycle_of(shown) == "degraded"
            return shown

        (missing,) = eventually(degraded).insights[0].missing_sites
        assert (missing.site, missing.since is None) == ("edge", False)
        # Once the site is no longer only suspected, a new deployment has a warning at once.
        eventually(lambda: "reads its points" not in enabler.explain_text(PEAK))
        (warning,) = about_sites(enabler.submit(PEAK))
        assert warning == ("no worker reads the points of the site edge: the site is unreachable")


def test_explain_reports_placement_and_traffic(fog: TwoSites) -> None:
    with fog.enabler() as enabler:
        enabler.submit(MEAN)
        fog.merge()
        text = enabler.explain_text(f"{PEAK}; {HERE}")
        groups = {group.id: group for group in enabler.explain(f"{PEAK}; {HERE}").groups}
        assert [f.kind for f in groups["all.fair"].fragments] == ["partial", "partial", "merge"]
        assert [f.worker for f in groups["site-edge.fair"].fragments] == ["edge-a"]
        edges = groups["all.fair"].edges
        assert [edge.carries for edge in edges] == [*["points", "panes"] * 2, "results"]
        assert "each second, at most" in text
        assert "pre_aggregate: points of 2 sites aggregated to panes, 1 not at the merge" in text
