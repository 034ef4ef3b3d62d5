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

QUERY = "cpu_now = COMPUTE COUNT(cpu, 2 s) EVERY 1 s"


@pytest.fixture
def workers(make_worker: MakeWorker) -> Iterator[dict[str, SparkWorker]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(make_worker(name)) for name in ("w1", "w2")}


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
    workers["w1"].start(agent_url)
    deployment = enabler.submit(QUERY).deployment_id
    eventually(lambda: enabler.show(deployment).status == "running", what="it runs")
    (fragment,) = workers["w1"].fragments

    # There is no other node: the fragment stays, and the command says so.
    drain = ["node", "drain", "w1", "--url", enabler_url, "--wait"]
    ended = CliRunner().invoke(app, [*drain, "3"])
    assert (ended.exit_code, f"1 fragments remain on w1: {fragment}" in ended.stderr) == (1, True)
    assert enabler.node_drain("w1").drained
    assert [node.drained for node in enabler.fog().nodes] == [True]
    assert enabler.show(deployment).status == "running"

    workers["w2"].start(agent_url)
    ended = CliRunner().invoke(app, [*drain, "90"])
    assert (ended.exit_code, ended.stdout[:23]) == (0, "No fragment runs on w1.")
    assert list(workers["w2"].fragments) == [fragment]
    assert workers["w1"].statuses == {}

    before = ticks_of(enabler, deployment)
    ticks = eventually(
        lambda: found if len(found := ticks_of(enabler, deployment)) > len(before) + 2 else None,
        what="results of the other node",
    )
    assert ticks == list(range(ticks[0], ticks[0] + 1000 * len(ticks), 1000))

    # A restarted worker is drained still, and receives fragments again when this ends.
    workers["w1"].stop()
    workers["w1"].start(agent_url)
    eventually(lambda: enabler.node_drain("w1").drained, what="the restarted worker is drained")
    ended = CliRunner().invoke(app, ["node", "undrain", "w1", "--url", enabler_url])
    assert ended.exit_code == 0
    eventually(lambda: not enabler.node_drain("w1").drained, what="the worker is not drained")
    enabler.drain("w2")
    eventually(lambda: list(workers["w1"].fragments) == [fragment], what="the fragment moves back")
    with pytest.raises(NotFoundError, match="there is no node 'w3'"):
        enabler.drain("w3")


def ticks_of(enabler: EnablerClient, deployment: str) -> list[int]:
    """Return the ticks of the results of a deployment, sorted."""
    return sorted(result.ts for result in enabler.results(deployment).results)
