"""Nodes that are drained: their fragments move without a gap, or stay if there is no other node."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from typer.testing import CliRunner

from analytics.client.enabler import EnablerClient
from command_line.app import app
from mistbow.client.agent import AgentClient
from mistbow.errors import NotFoundError
from tests.analytics_enabler.spark_worker import TEST_TIMEOUT_S, MakeWorker, SparkWorker, eventually
from tests.analytics_enabler.support import is_drained
from tests.oracle.stored_points import expected_values, stored_points
from tests.support.sender import Sender, check_stored
from tests.support.traffic import Traffic

pytestmark = pytest.mark.timeout(TEST_TIMEOUT_S)

# The mark of a drained worker stays in the home that the workers of all tests share.
FIRST, SECOND = "drained-1", "drained-2"
QUERY = "cpu_now = COMPUTE SUM(cpu, 2 s) EVERY 1 s"


@pytest.fixture
def workers(make_worker: MakeWorker) -> Iterator[dict[str, SparkWorker]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(make_worker(name)) for name in (FIRST, SECOND)}


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
