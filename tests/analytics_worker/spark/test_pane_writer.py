"""The writer of panes and results: a real agent stores rows of any size exactly once."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from analytics.plan.expressions import Source
from analytics.plan.fragments import StreamLocation
from analytics.plan.nodes import Pane, Plan, Window
from analytics_worker.evaluate.insight_values import INSIGHT_VALUES
from analytics_worker.evaluate.results import MAX_VALUES, append_results, as_results
from analytics_worker.evaluate.windows.windows import (
    EVER,
    ROUTED_PANES,
    Panes,
    shapes_of,
    windows_of,
)
from analytics_worker.spark.sink import StreamWriter
from analytics_worker.stateful.state_stream import StateAccess, append_states
from analytics_worker.stateful.state_table import StateEntry
from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.errors import UnavailableError
from mistbow.streams.models import (
    Appended,
)
from mistbow.streams.schemas import PANES, RESULT_ROWS, STATES
from tests.support.leases import granted
from tests.support.services import storage_agent

pytestmark = pytest.mark.usefixtures("processes")

RANDOM = np.random.default_rng(7)
NARROW = 2 * 2**20
"""The largest body (bytes) that the agent ``narrow`` accepts."""


@pytest.fixture(scope="module")
def narrow(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentClient]:
    home = tmp_path_factory.mktemp("narrow")
    with (
        IgniteServer(home) as ignite,
        storage_agent(home, ignite.port, node="n2", max_body_bytes=NARROW) as running,
    ):
        client = AgentClient(running.url)
        yield client
        client.close()


@pytest.fixture(params=["as usual", "narrow"])
def any_agent(request: pytest.FixtureRequest) -> AgentClient:
    name = "agent" if request.param == "as usual" else "narrow"
    found: AgentClient = request.getfixturevalue(name)
    return found


def stream_of(agent: AgentClient, name: str, schema: pa.Schema) -> int:
    agent.create_stream(name, schema)
    return agent.claim(name).epoch


def panes(due: int, keys: int, points: int) -> pa.Table:
    """Return ``keys`` panes with ``points`` random points each.

    ``due``: the due time of all panes (ms).
    """
    values = RANDOM.normal(size=(keys, points))
    rows = [
        {
            "pane": "p", "key": f"k{key}", "ts": due, "due": due, "count": points,
            "sum": sum(some), "min": min(some), "max": max(some),
            "points": [{"ts": due, "value": value, "entity": "a sensor"} for value in some],
        }
        for key, some in enumerate(values.tolist())
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, PANES)


def in_another_order(rows: pa.Table) -> pa.Table:
    """Return the rows in a random order, with the points of each row in reverse order.

    Spark may produce the rows in another order when it repeats a batch.
    """
    table = rows.take(pa.array(RANDOM.permutation(rows.num_rows)))
    turned = [row | {"points": row["points"][::-1]} for row in table.to_pylist()]
    return pa.Table.from_pylist(turned, PANES)


def write(agent: AgentClient, stream: str, epoch: int, rows: pa.Table) -> None:
    plain = [
        column.cast(pa.string()) if name in ("pane", "key") else column
        for name, column in zip(rows.column_names, rows.columns, strict=True)
    ]
    options = {"url": agent.url, "stream": stream, "epoch": str(epoch), "kind": "panes"}
    StreamWriter(options).write(iter(pa.table(plain, rows.column_names).to_batches()))


def points_of(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(
        (row["pane"], row["key"], row["ts"], row["due"], point["value"])
        for row in rows.to_pylist()
        for point in row["points"] or ()
    )


def counts_of(rows: pa.Table) -> int:
    return sum(rows["count"].to_pylist())


def test_panes_of_a_missed_minute_are_all_stored(any_agent: AgentClient) -> None:
    epoch = stream_of(any_agent, "panes/minute", PANES)
    minute = pa.concat_tables([panes(due * 1000, 1, 5000) for due in range(1, 61)])
    write(any_agent, "panes/minute", epoch, minute)
    stored = any_agent.read("panes/minute")
    assert points_of(stored.table) == points_of(minute)
    assert stored.table.num_rows == 60
    assert stored.position.frontier == 60_000


@pytest.mark.parametrize("stored_first", [True, False])
@pytest.mark.parametrize("failing", [1, pytest.param(2, marks=pytest.mark.soak), 3])
@pytest.mark.parametrize(("which", "keys"), [("agent", 24), ("narrow", 7)])
def test_panes_of_one_time_are_stored_once_after_a_failed_append(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    which: str,
    keys: int,
    failing: int,
    stored_first: bool,
) -> None:
    any_agent: AgentClient = request.getfixturevalue(which)
    name = f"panes/cut-{failing}-{'after' if stored_first else 'before'}"
    epoch = stream_of(any_agent, name, PANES)
    before, one, after = panes(1000, 1, 10), panes(2000, keys, 20_000), panes(3000, 1, 10)
    append, stored_parts = AgentClient.append, 0

    def fails(agent: AgentClient, *args: Any, **more: Any) -> Appended:
        nonlocal stored_parts
        if not stored_first and stored_parts == failing - 1:
            raise UnavailableError("cut")
        done = agent._send(append(*args, **more))
        stored_parts += 1
        if stored_first and stored_parts == failing:
            raise UnavailableError("cut")
        return done

    with monkeypatch.context() as patch:
        patch.setattr(AgentClient, "append", fails)
        with pytest.raises(UnavailableError):
            write(any_agent, name, epoch, pa.concat_tables([before, one]))
    # Readers see that it is incomplete.
    assert any_agent.info(name).frontier < 2000
    again = pa.concat_tables([in_another_order(one), before, after])
    write(any_agent, name, any_agent.claim(name).epoch, again)
    stored = any_agent.read(name)
    assert points_of(stored.table) == points_of(again)
    assert counts_of(stored.table) == counts_of(again)
    assert stored.position.frontier == 3000
    # A task that is repeated adds nothing either.
    write(any_agent, name, any_agent.info(name).epoch, again)
    assert any_agent.read(name).table.num_rows == stored.table.num_rows


def test_pane_longer_than_an_append_yields_the_same_window(
    any_agent: AgentClient,
) -> None:
    epoch = stream_of(any_agent, "panes/long", PANES)
    rows = panes(1000, 1, 400_000)
    write(any_agent, "panes/long", epoch, rows)
    stored = any_agent.read("panes/long").table
    assert stored.num_rows > 1
    (actual,), (right,) = windows(stored), windows(rows)
    assert sorted(point["value"] for point in actual.pop("points")) == sorted(
        point["value"] for point in right.pop("points")
    )
    assert actual == right


def windows(rows: pa.Table) -> list[dict[str, Any]]:
    pane = Pane(id="p", source=Source("m"), by=(), width_ms=1000, contents=("points",))
    window = Window(id="w", pane="p", size_ms=1000, every_ms=1000, contents=("points",))
    plan = Plan(insights=(), windows=(window,), panes=(pane,))
    placed = [
        {name: row.get(name) for name in ROUTED_PANES.names} | {"route": 0, "pane": row["ts"]}
        for row in rows.to_pylist()
    ]
    arranged = Panes.of(pa.Table.from_pylist(placed, ROUTED_PANES))
    found = windows_of(arranged, plan, shapes_of(plan, {"w": 0}), 0, EVER)
    return [row for table in found for row in table.to_pylist()]


def results(values: list[list[float]]) -> pa.Table:
    rows = [
        {"insight": "i", "key": f"k{at}", "ts": 1000, "value": float(len(some)), "values": some}
        for at, some in enumerate(values)
    ]
    return as_results(pa.Table.from_pylist(rows, INSIGHT_VALUES))


def test_results_with_many_values_are_all_stored(any_agent: AgentClient) -> None:
    epoch = stream_of(any_agent, "results/many", RESULT_ROWS)
    rows = results(RANDOM.normal(size=(20_000, 60)).tolist())
    append_results(any_agent, "results/many", rows, epoch)
    assert any_agent.read("results/many").table["values"].to_pylist() == rows["values"].to_pylist()


def test_result_with_too_many_values_is_stored_without_them(agent: AgentClient) -> None:
    epoch = stream_of(agent, "results/outliers", RESULT_ROWS)
    some = RANDOM.normal(size=MAX_VALUES + 1).tolist()
    rows = results([[1.0], some, some[1:], []])
    append_results(agent, "results/outliers", rows, epoch)
    stored = agent.read("results/outliers").table
    assert stored["value"].to_pylist() == [1, MAX_VALUES + 1, MAX_VALUES, 0]
    assert stored["values"].to_pylist() == [[1.0], None, some[1:], []]


def test_agent_with_a_smaller_limit_stores_results_without_values(
    narrow: AgentClient,
) -> None:
    epoch = stream_of(narrow, "results/outliers", RESULT_ROWS)
    rows = results([[1.0], RANDOM.normal(size=NARROW // 8).tolist(), [2.0]])
    append_results(narrow, "results/outliers", rows, epoch)
    stored = narrow.read("results/outliers").table
    assert stored["value"].to_pylist() == [1, NARROW // 8, 1]
    assert stored["values"].to_pylist() == [[1.0], None, [2.0]]


def test_states_with_long_keys_are_all_stored(any_agent: AgentClient, tmp_path: Path) -> None:
    epoch = stream_of(any_agent, "states/keys", STATES)
    location = StreamLocation("n", "states/keys")
    lease = granted(any_agent.url, location, epoch, tmp_path)
    account = StateAccess(any_agent.url, location, lease, str(tmp_path / "lock"))
    keys = [f"{at:0600}" for at in range(20_000)]
    rows = [("a", key, StateEntry(1000, 0, "1")) for key in keys]
    following = any_agent.info("states/keys").head
    following = append_states(any_agent, account, rows, following)
    stored = any_agent.read("states/keys")
    assert stored.table["key"].to_pylist() == keys
    assert stored.position.next == following
