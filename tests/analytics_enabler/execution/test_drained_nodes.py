"""Nodes that are drained: their fragments move without a gap, or stay if there is no other node."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from typer.testing import CliRunner, Result

from analytics.client.enabler import EnablerClient
from analytics_enabler.fragments import WHOLE, whole
from analytics_enabler.groups import Group
from command_line.app import app
from mistbow.client.agent import AgentClient
from mistbow.errors import NotFoundError
from tests.analytics_enabler.recording_worker import RecordingWorker
from tests.analytics_enabler.spark_worker import TEST_TIMEOUT_S, MakeWorker, SparkWorker, eventually
from tests.analytics_enabler.support import plan_of
from tests.oracle.stored_points import expected_values, stored_points
from tests.support.sender import Sender, check_stored
from tests.support.traffic import Traffic

pytestmark = pytest.mark.timeout(TEST_TIMEOUT_S)

# The mark of a drained worker stays in the home that the workers of all tests share.
FIRST, SECOND = "drained-1", "drained-2"
RECORDER = "recorder"
QUERY = "cpu_now = COMPUTE SUM(cpu, 2 s) EVERY 1 s"
FRAGMENT = whole(Group(scope="s", scheduler="fair"), plan_of("a = COMPUTE AVG(x) EVERY 1 s"), "s")[
    WHOLE
]


@pytest.fixture
def workers(make_worker: MakeWorker) -> Iterator[dict[str, SparkWorker]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(make_worker(name)) for name in (FIRST, SECOND)}


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


def test_drained_node_keeps_its_fragment_until_another_node_takes_it_over(
    workers: dict[str, SparkWorker],
    agent_url: str,
    agent: AgentClient,
    enabler: EnablerClient,
    enabler_url: str,
) -> None:
    with Sender(agent_url, Traffic(metrics=("cpu",), rate=50)) as sender:
        _drain_and_undrain(workers, agent_url, agent, enabler, enabler_url)
    check_stored([sender], [agent], "cpu")


def _drain_and_undrain(
    workers: dict[str, SparkWorker],
    agent_url: str,
    agent: AgentClient,
    enabler: EnablerClient,
    enabler_url: str,
) -> None:
    workers[FIRST].start(agent_url)
    deployment = enabler.submit(QUERY).deployment_id
    eventually(lambda: enabler.show(deployment).status == "running", what="it runs")
    since = enabler.show(deployment).insights[0].since
    (fragment,) = workers[FIRST].fragments

    # There is no other node: the fragment stays, and the command reports it.
    drain = ["node", "drain", FIRST, "--url", enabler_url, "--wait"]
    ended = CliRunner().invoke(app, [*drain, "3"])
    assert ended.exit_code == 1
    assert f"1 fragments remain on {FIRST}: {fragment}" in ended.stderr
    assert enabler.node_drain(FIRST).drained
    assert [node.drained for node in enabler.fog().nodes] == [True]
    assert enabler.show(deployment).status == "running"

    workers[SECOND].start(agent_url)
    ended = CliRunner().invoke(app, [*drain, "90"])
    assert ended.exit_code == 0
    assert ended.stdout.startswith(f"No fragment runs on {FIRST}.")
    assert list(workers[SECOND].fragments) == [fragment]
    assert workers[FIRST].statuses == {}

    _check_next_results(agent, enabler, deployment, since)

    # A restarted worker is drained still, and receives fragments again when this ends.
    workers[FIRST].stop()
    eventually(lambda: not is_drained(enabler, FIRST), what="the enabler has noticed the stop")
    workers[FIRST].start(agent_url)
    eventually(lambda: is_drained(enabler, FIRST), what="the restarted worker is drained")
    ended = CliRunner().invoke(app, ["node", "undrain", FIRST, "--url", enabler_url])
    assert ended.exit_code == 0
    eventually(lambda: not is_drained(enabler, FIRST), what="the worker is not drained")
    enabler.drain(SECOND)
    eventually(lambda: list(workers[FIRST].fragments) == [fragment], what="the fragment moves back")
    _check_next_results(agent, enabler, deployment, since)
    with pytest.raises(NotFoundError, match="there is no node 'w3'"):
        enabler.drain("w3")


def test_worker_leaves_when_another_one_has_taken_over_its_fragments(
    make_worker: MakeWorker, agent_url: str, agent: AgentClient, enabler: EnablerClient
) -> None:
    with (
        Sender(agent_url, Traffic(metrics=("cpu",), rate=50)) as sender,
        make_worker("leaving") as leaving,
        make_worker("staying") as staying,
    ):
        leaving.start(agent_url)
        deployment = enabler.submit(QUERY).deployment_id
        eventually(lambda: enabler.show(deployment).status == "running", what="it runs")
        since = enabler.show(deployment).insights[0].since
        (fragment,) = leaving.fragments
        staying.start(agent_url)
        leaving.leave()
        assert (list(staying.fragments), leaving.statuses) == ([fragment], {})
        leaving.stop()
        _check_next_results(agent, enabler, deployment, since)
    check_stored([sender], [agent], "cpu")


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
    enabler.submit(QUERY)
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


def drained(enabler_url: str, *, wait_s: int) -> Result:
    """Return the outcome of the command that drains the recording worker."""
    drain = ["node", "drain", RECORDER, "--url", enabler_url, "--wait", str(wait_s)]
    return CliRunner().invoke(app, drain)


def is_drained(enabler: EnablerClient, node: str) -> bool:
    """Return whether a node is drained; False while the enabler sees no worker of the node."""
    return any(each.drained for each in enabler.fog().nodes if each.name == node)


def _check_next_results(
    agent: AgentClient, enabler: EnablerClient, deployment: str, since: int
) -> None:
    """Wait for three more results; assert that all results since the start are the oracle's.

    Each tick has a result, also those of the drain; late points revise some results.
    """
    until = max(_values(enabler, deployment)) + 3000
    eventually(lambda: max(_values(enabler, deployment)) >= until, what="results of the other node")

    def equals_oracle() -> bool:
        found = {ts: each for ts, each in _values(enabler, deployment).items() if ts <= until}
        right = expected_values(QUERY, stored_points(agent, "cpu"), since, until)
        assert sorted(found) == [ts for _, _, ts in sorted(right)]
        assert found == pytest.approx({ts: value for (_, _, ts), value in right.items()})
        return len(found) > 3

    eventually(equals_oracle, what="all results are the oracle's")


def _values(enabler: EnablerClient, deployment: str) -> dict[int, float | None]:
    """Return tick -> value of the insight."""
    return {each.ts: each.value for each in enabler.results(deployment, limit=10_000).results}
