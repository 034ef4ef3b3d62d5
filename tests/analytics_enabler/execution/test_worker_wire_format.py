"""The wire format between the enabler and a worker: orders, drains, and each field of a status.

The worker records orders, and reports what a test sets: states that a real worker reaches only by
luck.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from analytics.client.enabler import EnablerClient
from analytics.client.worker import AsyncWorkerClient
from analytics.insight_models import InsightStatus, Lifecycle
from analytics.plan.fragments import Merge, Partial
from analytics.plan.orders import Lease
from analytics_enabler.execution.desired_fragments import DesiredFragments
from analytics_enabler.execution.worker_reconcilers import WorkerReconciler
from analytics_enabler.fragments import WHOLE, whole
from analytics_enabler.groups import Group
from analytics_enabler.scheduling.driver.driver import NodesByJob, PlacementDriver
from analytics_enabler.scheduling.model.jobs import Job
from analytics_enabler.scheduling.model.snapshot import Fog
from command_line.app import app
from ignite_server.ports import free_ports
from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.client.credentials import ServiceCredentials
from mistbow.clock import system_clock
from mistbow.domains import DEFAULT_DOMAIN
from mistbow.fabric import Worker
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from tests.analytics_enabler.conftest import StartEnabler, running_enabler
from tests.analytics_enabler.recording_worker import RecordingWorker
from tests.analytics_enabler.support import is_drained, plan_of, without_digest
from tests.support.conditions import aeventually, eventually
from tests.support.http_server import served
from tests.support.ignite import empty
from tests.support.operators import install_example_operators

RECORDER = "recorder"
NOW = "cpu_now = COMPUTE AVG(cpu, 10 s) EVERY 5 s"
HEADROOM = "cpu_headroom = COMPUTE 100 - AVG(cpu, 10 s) EVERY 5 s"
FRAGMENT = whole(Group(scope="s", scheduler="fair"), plan_of("a = COMPUTE AVG(x) EVERY 1 s"), "s")[
    WHOLE
]


async def _lease() -> Lease:
    return Lease(1, 1)


@pytest.fixture
def recorder(agent_url: str, enabler: EnablerClient) -> Iterator[RecordingWorker]:
    """A worker that runs and stops fragments as the test sets, known to the enabler."""
    recorder = RecordingWorker(RECORDER)
    with recorder.running(agent_url):
        eventually(
            lambda: RECORDER in {node.name for node in enabler.fog().nodes},
            what="the enabler sees the worker",
        )
        yield recorder


@pytest.fixture
def agent_urls(
    ignite_server: IgniteServer, other_ignite: IgniteServer, tmp_path: Path
) -> Iterator[list[str]]:
    """Yield the addresses of the agents of two sites that reach each other."""
    ports = free_ports(2)
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    with ExitStack() as stack:
        sites = zip(("cloud", "edge"), (ignite_server, other_ignite), ports, strict=True)
        for number, (site, ignite, port) in enumerate(sites):
            empty(ignite)
            settings = AgentSettings(
                home=tmp_path / site,
                node=f"{site}-1",
                site=site,
                ignite_port=ignite.port,
                agent_url=urls[number],
                peers=urls[1 - number],
            )
            stack.enter_context(served(create_app(settings), port))
        with closing(AgentClient(urls[0])) as client:
            eventually(lambda: sum(site.reachable for site in client.fabric().sites) == 2)
        yield urls


@pytest.fixture
def worker(agent_url: str) -> Iterator[RecordingWorker]:
    worker = RecordingWorker()
    with worker.running(agent_url):
        yield worker


def test_status_reports_progress_of_insight(
    enabler: EnablerClient, worker: RecordingWorker
) -> None:
    deployment_id = enabler.submit(NOW).deployment_id

    def status() -> str:
        shown = enabler.show(deployment_id)
        assert shown.status == shown.insights[0].state
        return shown.status

    eventually(lambda: worker.insights and status() == "starting")
    worker.frontier = enabler.show(deployment_id).insights[0].first_tick
    eventually(lambda: status() == "running")
    failure = "1 value is missing: GAP 1.0: `compute` returned inf"
    [uid] = worker.insights
    failures = {uid: failure}
    worker.status_fields["all.fair"] = {"operator_failures": failures}
    lack = f"cpu_now: {failure}"
    eventually(lambda: enabler.show(deployment_id).error == lack)
    assert status() == "running"
    worker.status_fields.clear()
    worker.state, worker.error = "failed", "out of memory"
    eventually(lambda: status() == "failed")
    shown = enabler.show(deployment_id)
    failure = "the fragment all.fair on the worker w1 fails: out of memory. "
    assert (shown.error or "").startswith(failure)
    assert shown.insights[0].error == shown.error


def test_status_of_shed_or_lagging_insight_has_since(
    enabler: EnablerClient, worker: RecordingWorker
) -> None:
    deployment_id = enabler.submit(f"{NOW}; {HEADROOM} WITH SALIENCE 5").deployment_id
    eventually(lambda: len(worker.fragments) == 2)
    plain = next(name for name, each in worker.fragments.items() if each.salience == 0)
    worker.frontier = enabler.show(deployment_id).insights[0].first_tick
    eventually(lambda: enabler.show(deployment_id).status == "running")

    def states() -> list[tuple[str, int | None]]:
        shown = enabler.show(deployment_id)
        assert (shown.status, shown.status_since) == (shown.insights[0].state, since)
        return [(each.state, each.state_since) for each in shown.insights]

    since = 7
    worker.status_fields[plain] = {"lagging_since": since}
    eventually(lambda: states() == [("lagging", since), ("running", None)])
    since = 8
    worker.status_fields[plain] = {"shed_since": since, "state": "shed"}
    eventually(lambda: states() == [("shed", since), ("running", None)])


def test_correcting_insight_shows_how_much_and_the_wait_ends_with_the_correction(
    enabler: EnablerClient, worker: RecordingWorker, agent_url: str
) -> None:
    deployment_id = enabler.submit(NOW).deployment_id
    eventually(lambda: worker.insights)
    (uid,) = worker.insights
    tick = enabler.show(deployment_id).insights[0].first_tick
    worker.frontier = tick + 60_000
    due = {"correcting": {uid: 7}, "corrections_due": {uid: 3}, "corrected_until": 0}
    worker.status_fields["all.fair"] = due

    def insight() -> InsightStatus:
        (shown,) = enabler.show(deployment_id).insights
        (listed,) = enabler.list()
        assert listed.insights == [shown]
        return shown

    eventually(lambda: insight().corrections_due == 3)
    assert insight().lifecycle == Lifecycle(state="correcting", since=7)
    assert insight().state == "running"
    answer = enabler.results(deployment_id, settled_until=tick)
    reasons = ["cpu_now: late points change the results at 3 ticks"]
    assert (answer.settled, answer.unsettled) == (False, reasons)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(enabler.results, deployment_id, settled_until=tick, wait_s=30)
        worker.asked.clear()
        assert worker.asked.wait(10)
        assert not waiting.done()
        worker.status_fields["all.fair"] = {"corrected_until": system_clock() + 60_000}
        assert waiting.result(20).settled is True
    assert insight().corrections_due == 0
    assert insight().lifecycle is not None
    assert insight().lifecycle.state == "running"


def test_silent_insight_has_its_reason_in_get_and_list(
    enabler: EnablerClient, worker: RecordingWorker
) -> None:
    deployment_id = enabler.submit(NOW).deployment_id
    eventually(lambda: worker.insights)
    (uid,) = worker.insights
    assert enabler.show(deployment_id).insights[0].silent is None
    reason = "17 points of `cpu` came in within 15 seconds, none satisfies value > 100"
    worker.status_fields["all.fair"] = {"silent": {uid: reason}}
    eventually(lambda: enabler.show(deployment_id).insights[0].silent == reason)
    (listed,) = enabler.list()
    assert listed.insights[0].silent == reason
    worker.status_fields.clear()
    eventually(lambda: enabler.show(deployment_id).insights[0].silent is None)


def test_insight_waits_for_worker_with_its_operator(
    enabler: EnablerClient,
    worker: RecordingWorker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install_example_operators(tmp_path, monkeypatch)
    deployment_id = enabler.submit("a = COMPUTE trimmed_mean(x, 10 s) EVERY 5 s").deployment_id
    lack = "no node with the operator TRIMMED_MEAN 2.0. The enabler places it as soon as"
    eventually(lambda: lack in (enabler.show(deployment_id).error or ""))
    assert enabler.show(deployment_id).status == "waiting for a worker"
    worker.operators = ("TRIMMED_MEAN 1.0", "TRIMMED_MEAN 2.0")
    eventually(lambda: {*map(without_digest, worker.insights)} == {f"{deployment_id}/a/1"})


def test_worker_that_lost_fragments_receives_them_again(
    enabler: EnablerClient, worker: RecordingWorker
) -> None:
    enabler.submit(NOW)
    eventually(lambda: worker.fragments)
    worker.fragments.clear()
    eventually(lambda: worker.fragments)
    first, second = worker.accepted
    assert first == second


def test_fragment_that_a_former_enabler_has_left_is_stopped_by_the_next_one(
    worker: RecordingWorker, start_enabler: StartEnabler
) -> None:
    # The last order of an enabler that ends may arrive after the end.
    worker.fragments[FRAGMENT.id] = FRAGMENT
    with start_enabler():
        eventually(lambda: worker.stopped == [FRAGMENT.id], what="the fragment is stopped")


def test_worker_learns_that_the_former_worker_of_its_fragment_is_dead(
    enabler: EnablerClient, agent_url: str
) -> None:
    first, second = RecordingWorker("w1"), RecordingWorker("w2")
    with ExitStack() as dying:
        dying.enter_context(first.running(agent_url))
        enabler.submit(NOW)
        eventually(lambda: first.fragments)
        (fragment_id,) = first.fragments
        with second.running(agent_url):
            dying.close()
            eventually(lambda: second.fragments, what="the other worker receives the fragment")
            (order,) = second.orders
            assert order.orphaned == {fragment_id}
            assert not any(each.orphaned for each in first.orders)
            # The worker writes the fragment, so it is not orphaned any more.
            enabler.submit(HEADROOM)
            eventually(lambda: len(second.orders) > 1)
            assert not second.orders[-1].orphaned


def test_drain_waits_for_the_fragments_of_other_domains(
    recorder: RecordingWorker, enabler_url: str
) -> None:
    recorder.domains[FRAGMENT.id] = "north"
    recorder.fragments[FRAGMENT.id] = FRAGMENT
    ended = drained(enabler_url, wait_s=2)
    assert ended.exit_code == 1
    assert f"1 fragments remain on {RECORDER}: {FRAGMENT.id}." in ended.stderr

    recorder.fragments.clear()
    ended = drained(enabler_url, wait_s=60)
    assert ended.exit_code == 0, ended.stderr
    assert ended.stdout.startswith(f"No fragment runs on {RECORDER}.")


@pytest.mark.soak
def test_drain_does_not_succeed_while_the_worker_does_not_answer(
    recorder: RecordingWorker, enabler: EnablerClient, enabler_url: str
) -> None:
    enabler.submit(NOW)
    eventually(lambda: recorder.fragments, what="the worker runs a fragment")
    enabler.drain(RECORDER)
    eventually(lambda: is_drained(enabler, RECORDER), what="the drain is announced")
    recorder.hang()
    try:
        ended = drained(enabler_url, wait_s=0)
    finally:
        recorder.wake()
    assert ended.exit_code == 1
    assert f"It is unknown which fragments run on {RECORDER}" in ended.stderr
    assert "it does not answer within 4 s" in ended.stderr


def test_drain_does_not_succeed_before_the_worker_announces_that_it_is_drained(
    recorder: RecordingWorker, enabler_url: str
) -> None:
    recorder.announces_drain = False
    ended = drained(enabler_url, wait_s=0)
    assert recorder.drained
    assert ended.exit_code == 1
    assert f"{RECORDER} does not announce yet that it is drained" in ended.stderr


def test_merge_learns_of_an_orphan_before_and_after_it_is_placed_again(
    agent_urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, spare = PlacementDriver.place, RecordingWorker("w-spare")

    async def fail_without_worker(
        driver: PlacementDriver, jobs: Sequence[Job], fog: Fog, *more: Any
    ) -> NodesByJob:
        if {other.name, spare.name}.isdisjoint(node.name for node in fog.nodes):
            raise RuntimeError("no placement can be decided")
        return await place(driver, jobs, fog, *more)

    workers = dict(zip(agent_urls, map(RecordingWorker, ("w-cloud", "w-edge")), strict=True))
    with ExitStack() as stack:
        running = {url: stack.enter_context(ExitStack()) for url in workers}
        for url, worker in workers.items():
            running[url].enter_context(worker.running(url))
        enabler = EnablerClient(stack.enter_context(running_enabler(agent_urls[0], tmp_path)))
        enabler.submit(NOW)
        eventually(lambda: all(worker.fragments_of(Partial) for worker in workers.values()))
        merging = eventually(
            lambda: next((w for w in workers.values() if w.fragments_of(Merge)), None)
        )
        [(url, other)] = [(url, each) for url, each in workers.items() if each is not merging]
        (orphan,) = other.fragments_of(Partial)
        monkeypatch.setattr(PlacementDriver, "place", fail_without_worker)
        running[url].close()
        eventually(lambda: merging.orders[-1].orphaned == {orphan.id}, what="the first note")
        orders = len(merging.orders)
        # Until the merge has learned of the placement, the new worker does not write.
        spare.status_fields[orphan.id] = {"state": "starting", "active": None}
        stack.enter_context(spare.running(url))
        eventually(lambda: orphan.id in spare.fragments, timeout=60, what="the orphan is placed")
        eventually(lambda: len(merging.orders) > orders, what="the second note")
        assert merging.orders[orders].orphaned == {orphan.id}
        assert orphan.id not in merging.fragments
        placed = next(order for order in spare.orders if orphan.id in order.fragments)
        assert placed.orphaned == {orphan.id}


@pytest.mark.integration  # it waits for requests of the reconciler
async def test_reconciler_leaves_fragments_of_other_domains_alone() -> None:
    recorder = RecordingWorker()
    foreign = msgspec.structs.replace(FRAGMENT, id="foreign")
    recorder.fragments = {"foreign": foreign, "stray": msgspec.structs.replace(foreign, id="stray")}
    recorder.domains["foreign"] = "north"
    with served(recorder.app()) as url:
        worker = Worker(name="w", url=url, cores=1, memory_mb=1, cores_free=1, memory_free_mb=1)
        client = AsyncWorkerClient(url, ServiceCredentials(url, ""), attempts=1)
        reconciler = WorkerReconciler(
            worker,
            client,
            DEFAULT_DOMAIN,
            _lease,
            lambda: None,
            system_clock,
            lambda: 0.0,
            is_known=True,
        )
        reconciler.set_desired(DesiredFragments({FRAGMENT.id: FRAGMENT}))

        async def runs_its_own_fragment() -> bool:
            return recorder.fragments.keys() == {"foreign", FRAGMENT.id}

        await aeventually(runs_its_own_fragment)
        assert reconciler.observed.keys() <= {"stray", FRAGMENT.id}
        await reconciler.close()


def drained(enabler_url: str, *, wait_s: int) -> Result:
    """Return the outcome of the command that drains the recording worker."""
    drain = ["node", "drain", RECORDER, "--url", enabler_url, "--wait", str(wait_s)]
    return CliRunner().invoke(app, drain)
