"""Nodes that are drained: their fragments move without a gap, or stay if there is no other node."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from typer.testing import CliRunner

from analytics.client.enabler import EnablerClient
from command_line.app import app
from mistbow.errors import NotFoundError
from tests.analytics_enabler.spark_worker import TEST_TIMEOUT_S, MakeWorker, SparkWorker, eventually
from tests.support.sender import Sender
from tests.support.traffic import Traffic

pytestmark = pytest.mark.timeout(TEST_TIMEOUT_S)

# The mark of a drained worker stays in the home that the workers of all tests share.
FIRST, SECOND = "drained-1", "drained-2"
QUERY = "cpu_now = COMPUTE COUNT(cpu, 2 s) EVERY 1 s"


@pytest.fixture
def workers(make_worker: MakeWorker) -> Iterator[dict[str, SparkWorker]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(make_worker(name)) for name in (FIRST, SECOND)}


def test_drained_node_keeps_its_fragment_until_another_node_takes_it_over(
    workers: dict[str, SparkWorker],
    agent_url: str,
    enabler: EnablerClient,
    enabler_url: str,
) -> None:
    with Sender(agent_url, Traffic(metrics=("cpu",), rate=50)):
        _drain_and_undrain(workers, agent_url, enabler, enabler_url)


def _drain_and_undrain(
    workers: dict[str, SparkWorker],
    agent_url: str,
    enabler: EnablerClient,
    enabler_url: str,
) -> None:
    workers[FIRST].start(agent_url)
    deployment = enabler.submit(QUERY).deployment_id
    eventually(lambda: enabler.show(deployment).status == "running", what="it runs")
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

    before = ticks_of(enabler, deployment)
    ticks = eventually(
        lambda: found if len(found := ticks_of(enabler, deployment)) > len(before) + 2 else None,
        what="results of the other node",
    )
    assert ticks == list(range(ticks[0], ticks[0] + 1000 * len(ticks), 1000))

    # A restarted worker is drained still, and receives fragments again when this ends.
    workers[FIRST].stop()
    eventually(lambda: not is_drained(enabler, FIRST), what="the enabler has noticed the stop")
    workers[FIRST].start(agent_url)
    eventually(lambda: is_drained(enabler, FIRST), what="the restarted worker is drained")
    ended = CliRunner().invoke(app, ["node", "undrain", FIRST, "--url", enabler_url])
    assert ended.exit_code == 0
    eventually(lambda: not enabler.node_drain(FIRST).drained, what="the worker is not drained")
    enabler.drain(SECOND)
    eventually(lambda: list(workers[FIRST].fragments) == [fragment], what="the fragment moves back")
    with pytest.raises(NotFoundError, match="there is no node 'w3'"):
        enabler.drain("w3")


def is_drained(enabler: EnablerClient, node: str) -> bool:
    """Return whether a node is drained; False while the enabler sees no worker of the node."""
    try:
        return enabler.node_drain(node).drained
    except NotFoundError:
        return False


def ticks_of(enabler: EnablerClient, deployment: str) -> list[int]:
    """Return the ticks of the results of a deployment, sorted."""
    return sorted(result.ts for result in enabler.results(deployment).results)
