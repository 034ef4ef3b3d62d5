"""Detection of lost rows: the only up-to-date node dies before the other node has caught up."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pyarrow as pa
import pytest
from pyignite import Client
from typer.testing import CliRunner

from command_line.app import app as cli
from ignite_server.server import IgniteServer
from mistbow.client import AgentClient, Point
from mistbow.clock import system_clock
from mistbow.streams.schemas import METADATA, RAW
from tests.storage_agent.cluster.conftest import SupervisedAgent
from tests.storage_agent.cluster.test_failing_nodes import tolerates_failure
from tests.support.conditions import eventually

_HOLDERS = "SELECT COUNT(DISTINCT NODE_ID) FROM SYS.PARTITION_STATES"


@pytest.fixture
def peer(agent: SupervisedAgent, ignite: IgniteServer, tmp_path: Path) -> Iterator[SupervisedAgent]:
    """Yield the agent of another site, which stores a replica."""
    settings = {"node": "m", "site": "b", "peers": agent.url, "ignite_port": ignite.port}
    peer = SupervisedAgent(tmp_path / "b", **settings)
    agent.add_peer(peer.url)
    peer.start()
    peer.ready()
    yield peer
    peer.stop()


def put(agent: SupervisedAgent, start: int, stop: int) -> None:
    client = AgentClient(agent.url)
    for number in range(start, stop):
        points = [Point("m", f"e{number}", system_clock(), float(number))]
        client.put(points, idempotency_key=str(number))
    client.close()


def stored(agent: SupervisedAgent, stream: str) -> pa.Table:
    client = AgentClient(agent.url)
    try:
        return client.read(stream).table
    finally:
        client.close()


def head(agent: SupervisedAgent, stream: str) -> int:
    answer = httpx.get(f"{agent.url}/streams/{stream}/info", timeout=10)
    assert answer.is_success, answer.text
    return int(answer.json()["head"])


def has_all(peer: SupervisedAgent, agent: SupervisedAgent) -> bool:
    """Return whether the replica at ``peer`` has all rows of the stream ``raw`` of ``agent``.

    Raises ``AssertionError`` while the source's agent has not saved the heads of all its streams.
    """
    state = httpx.get(f"{agent.url}/streams").json()["streams"]
    remembered = msgspec.json.decode((agent.home / "agent" / "heads.json").read_bytes())["heads"]
    replica = httpx.get(f"{peer.url}/streams/replicas/a/raw/info").json()
    assert all(remembered.get(each["name"]) == each["head"] for each in state)
    position = int(replica["frontier"]) - int(replica["attributes"].get("base", 0))
    return position == head(agent, RAW)


def kill_while_catching_up(good: IgniteServer, stale: IgniteServer) -> None:
    """Start the node ``stale``, and kill the node ``good`` as soon as ``stale`` has joined."""
    client = Client(timeout=10)
    with client.connect("127.0.0.1", good.port):
        stale.launch()

        def is_there() -> bool:
            with client.sql(_HOLDERS) as rows:
                return list(rows) == [[2]]

        eventually(is_there, timeout=60, what="the other node is there")
        good.kill()


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_lost_rows_are_refused_and_restored_from_a_replica(
    nodes: list[IgniteServer], agent: SupervisedAgent, peer: SupervisedAgent
) -> None:
    # The agent may not know the other site yet.
    eventually(lambda: httpx.put(f"{agent.url}/replication", json={"target": "b"}).is_success)
    client = AgentClient(agent.url)
    client.create_stream("untouched", pa.schema([("x", pa.int64())]))
    client.append("untouched", pa.table({"x": [1, 2, 3]}))
    put(agent, 0, 40)
    eventually(lambda: tolerates_failure(agent), timeout=60, what="one node may fail")
    nodes[1].kill()
    put(agent, 40, 140)
    eventually(lambda: has_all(peer, agent), timeout=60, what="the replica has all rows")
    before = head(agent, RAW)
    kill_while_catching_up(*nodes)

    def refused() -> list[str]:
        return [words for words in agent.waiting_for() if "Ignite has lost" in words]

    words = eventually(refused, timeout=120, what="the loss shows")
    assert any(f"the stream {RAW} ends at" in each for each in words), words
    answer = httpx.get(f"{agent.url}/streams/{RAW}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "lost_data")
    assert client.read("untouched").table["x"].to_pylist() == [1, 2, 3]

    for name in (METADATA, RAW):
        if any(f"the stream {name} " in each for each in words):
            # Through the agent of another site, as people administer the edges from the core.
            repaired = CliRunner().invoke(
                cli, ["storage", "repair", name, "--site", "a", "--from", "b", "--url", peer.url]
            )
            assert repaired.exit_code == 0, repaired.output
    agent.ready()
    values = stored(agent, RAW)["value"].to_pylist()
    assert sorted(values) == [float(number) for number in range(140)]
    assert head(agent, RAW) > before  # the agent has claimed it anew, behind all that there was
    put(agent, 140, 150)

    # The other comes back with nothing, and gets all.
    shutil.rmtree(nodes[0].config.folder / "db")
    nodes[0].start()
    eventually(lambda: tolerates_failure(agent), timeout=60, what="one node may fail")
    nodes[1].kill()
    put(agent, 150, 160)
    # Some may be in the agent's spool, as the node that it was connected to has just died.
    eventually(
        lambda: sorted(stored(agent, RAW)["value"].to_pylist()) == [float(n) for n in range(160)],
        what="all points are stored",
    )
    assert client.get("m", "e70")[0].data[0].values[0].value == 70.0
    client.close()
