"""The node that was up to date dies before the other has caught up: what is lost shows."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pyarrow as pa
import pytest
from pyignite import Client
from typer.testing import CliRunner

from mistbow.cli.app import app as cli
from mistbow.client.agent import AgentClient, Point
from mistbow.clock import system_clock
from mistbow.ignite.server import IgniteServer
from mistbow.streams.schemas import METADATA, RAW
from tests.storage_agent.cluster.conftest import KeptAgent
from tests.storage_agent.cluster.test_failing_nodes import may_fail
from tests.support.waiting import eventually

_HOLDERS = "SELECT COUNT(DISTINCT NODE_ID) FROM SYS.PARTITION_STATES"


@pytest.fixture
def neighbour(agent: KeptAgent, ignite: IgniteServer, tmp_path: Path) -> Iterator[KeptAgent]:
    """The agent of another site, which keeps a replica."""
    settings = {"node": "m", "site": "b", "peers": agent.url, "ignite_port": ignite.port}
    neighbour = KeptAgent(tmp_path / "b", **settings)
    neighbour.start()
    neighbour.ready()
    yield neighbour
    neighbour.stop()


def put(agent: KeptAgent, start: int, stop: int) -> None:
    client = AgentClient(agent.url)
    for number in range(start, stop):
        points = [Point("m", f"e{number}", system_clock(), float(number))]
        client.put(points, idempotency_key=str(number))
    client.close()


def stored(agent: KeptAgent, stream: str) -> pa.Table:
    client = AgentClient(agent.url)
    try:
        return client.read(stream).table
    finally:
        client.close()


def head(agent: KeptAgent, stream: str) -> int:
    answer = httpx.get(f"{agent.url}/streams/{stream}/info", timeout=10)
    assert answer.is_success, answer.text
    return int(answer.json()["head"])


def has_all(neighbour: KeptAgent, agent: KeptAgent) -> bool:
    """Tell whether the replica is complete, and the agent remembers where its streams end."""
    state = httpx.get(f"{agent.url}/streams").json()["streams"]
    remembered = msgspec.json.decode((agent.home / "agent" / "heads.json").read_bytes())["heads"]
    replica = httpx.get(f"{neighbour.url}/streams/replicas/a/raw/info").json()
    assert all(remembered.get(each["name"]) == each["head"] for each in state)
    position = int(replica["frontier"]) - int(replica["attributes"].get("base", 0))
    return position == head(agent, RAW)


def killed_while_catching_up(good: IgniteServer, stale: IgniteServer) -> None:
    """Start ``stale``, and kill ``good`` as soon as the other is there."""
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
def test_what_is_lost_is_refused_and_repaired_from_a_replica(
    nodes: list[IgniteServer], agent: KeptAgent, neighbour: KeptAgent
) -> None:
    asked = eventually(lambda: httpx.put(f"{agent.url}/replication", json={"target": "b"}))
    assert asked.is_success, asked.text
    client = AgentClient(agent.url)
    client.create_stream("untouched", pa.schema([("x", pa.int64())]))
    client.append("untouched", pa.table({"x": [1, 2, 3]}))
    put(agent, 0, 40)
    eventually(lambda: may_fail(agent), timeout=60, what="one node may fail")
    nodes[1].kill()
    put(agent, 40, 140)
    eventually(lambda: has_all(neighbour, agent), timeout=60, what="all is in the replica")
    before = head(agent, RAW)
    killed_while_catching_up(*nodes)

    def refused() -> list[str]:
        return [words for words in agent.waiting_for() if "Ignite has lost" in words]

    words = eventually(refused, timeout=120, what="the loss shows")
    assert any(f"the stream {RAW} ends at" in each for each in words), words
    answer = httpx.get(f"{agent.url}/streams/{RAW}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "lost_data")
    assert client.read("untouched").table["x"].to_pylist() == [1, 2, 3]

    for name in (METADATA, RAW):
        if any(f"the stream {name} " in each for each in words):
            repaired = CliRunner().invoke(
                cli, ["storage", "repair", name, "--from", "b", "--url", agent.url]
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
    eventually(lambda: may_fail(agent), timeout=60, what="one node may fail")
    nodes[1].kill()
    put(agent, 150, 160)
    # Some may be in the agent's spool, as the node that it was connected to has just died.
    eventually(
        lambda: sorted(stored(agent, RAW)["value"].to_pylist()) == [float(n) for n in range(160)],
        what="all is there",
    )
    assert client.get("m", "e70")[0].data[0].values[0].value == 70.0
    client.close()
