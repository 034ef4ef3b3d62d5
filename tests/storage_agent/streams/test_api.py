"""Streams over HTTP, by the client that the other services use."""

import httpx
import pyarrow as pa
import pytest

from mistbow.client import AgentClient, AsyncAgentClient, Point
from mistbow.errors import (
    ConflictError,
    FencedError,
    InvalidRequestError,
    NotFoundError,
    TooLargeError,
)
from mistbow.streams.schemas import METADATA, POINTS, RAW, RESULT_ROWS, ROW_FRONTIER
from mistbow.streams.wire import Chunk, Position, encode_rows
from tests.storage_agent.conftest import ManualClock

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("word", pa.string())])


def rows(*pairs: tuple[int, str]) -> pa.RecordBatch:
    columns = [pa.array([ts for ts, _ in pairs]), pa.array([word for _, word in pairs])]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def test_create_stream_repeated_returns_the_same_stream(client: AgentClient) -> None:
    made = client.create_stream("a/b-1.x_y", SCHEMA)
    assert [(field.name, field.type) for field in made.fields] == [
        ("ts", "int64"),
        ("word", "string"),
    ]
    assert (made.first, made.head, made.epoch, made.lateness_ms) == (0, 0, 0, None)
    assert client.create_stream("a/b-1.x_y", SCHEMA) == made
    with pytest.raises(ConflictError):
        client.create_stream("a/b-1.x_y", RESULT_ROWS)
    assert [stream.name for stream in client.streams()] == ["a/b-1.x_y", METADATA, RAW]
    assert client.create_stream(RAW, POINTS).lateness_ms == 1000


@pytest.mark.parametrize("name", ["A", "-a", "a b", "ä", "a" * 101, "a/info"])
def test_create_stream_rejects_invalid_names(client: AgentClient, name: str) -> None:
    with pytest.raises(InvalidRequestError):
        client.create_stream(name, SCHEMA)


def test_stream_routes_reject_invalid_requests(client: AgentClient, url: str) -> None:
    with pytest.raises(NotFoundError) as unknown:
        client.info("nothing/here")
    assert unknown.value.hint == "PUT /streams/nothing/here creates the stream."
    with pytest.raises(ConflictError):
        client.claim(RAW)
    with pytest.raises(InvalidRequestError, match="horizon"):
        client.create_stream("s", pa.schema([ROW_FRONTIER]))
    client.create_stream("s", SCHEMA)
    with pytest.raises(InvalidRequestError):
        client.append("s", RESULT_ROWS.empty_table())
    with pytest.raises(InvalidRequestError, match="null"):
        client.append("s", pa.table({"ts": pa.array([None], pa.int64()), "word": ["x"]}))
    with pytest.raises(InvalidRequestError, match="word"):
        client.append("s", pa.table({"ts": [1], "word": [2]}))
    with pytest.raises(ConflictError, match="ends at 0"):
        client.read("s", 1)
    with pytest.raises(InvalidRequestError, match="column"):
        client.read("s", columns=["colour"])
    with pytest.raises(InvalidRequestError, match="ts"):
        client.read("s", match={"ts": "soon"})
    with pytest.raises(InvalidRequestError, match="late"):
        client.read("s", late=True)
    for body in (b"", b"rubbish", encode_rows(rows((1, "x")))[:-30]):
        assert httpx.post(f"{url}/streams/s", content=body).status_code == 400
    for query in ("from=-1", "from=x", "match=word", "late=maybe", f"from={2**64}"):
        assert httpx.get(f"{url}/streams/s?{query}").status_code == 400


def test_append_then_read_returns_the_rows(client: AgentClient) -> None:
    client.create_stream("s", SCHEMA)
    first = client.append("s", rows((1, "a"), (2, "b")), idempotency_key="k1")
    assert (first.first, first.next) == (0, 2)
    assert client.append("s", rows((1, "a"), (2, "b")), idempotency_key="k1") == first
    client.append("s", pa.table({"ts": [3], "word": pa.array(["c"]).dictionary_encode()}))
    everything = client.read("s")
    assert everything.table.to_pydict() == {"ts": [1, 2, 3], "word": ["a", "b", "c"]}
    assert everything.position == Position(3, 0)
    assert client.read("s", 1, 2).table["word"].to_pylist() == ["b"]
    assert client.read("s", 1, 2).position.next == 2
    assert client.read("s", 3).table.num_rows == 0
    assert client.append("s", rows()).next == 3


def test_selection_returns_only_matching_rows_and_columns(
    client: AgentClient, clock: ManualClock
) -> None:
    now = clock.now
    client.put([Point("cpu", "a", now, 1.0), Point("cpu", "b", now, 2.0)])
    client.put([Point("mem", "a", now + 500, 3.0), Point("cpu", "a", now - 5000, 4.0)])

    def values(**selection: object) -> list[float]:
        found: list[float] = client.read(RAW, **selection).table["value"].to_pylist()  # type: ignore[arg-type]
        return found

    assert values() == [1, 2, 3, 4]
    assert values(match={"metric": "cpu"}) == [1, 2, 4]
    assert values(match={"metric": ["cpu", "mem"], "entity": "a"}) == [1, 3, 4]
    assert values(match={"metric": "none"}) == []
    assert values(min_ts=now) == [1, 2, 3]
    assert values(max_ts=now) == [1, 2, 4]
    assert values(min_ts=now + 1, max_ts=now + 500) == [3]
    assert values(late=True) == [4]
    assert values(late=False) == [1, 2, 3]
    table = client.read(RAW, columns=["value"]).table
    assert table.column_names == ["value", "horizon"]
    assert client.read(RAW).table.schema == POINTS.append(ROW_FRONTIER)


def test_horizon_column_marks_late_rows(client: AgentClient, clock: ManualClock) -> None:
    start = clock.now
    client.put([Point("m", "e", start, 1.0)])
    clock.now += 2000
    client.put([Point("m", "e", start, 2.0)])  # not late: the frontier was at start - 1000 so far
    client.put([Point("m", "e", start + 1000, 3.0), Point("m", "e", start + 1001, 4.0)])
    table = client.read(RAW).table
    pairs = zip(table["ts"].to_pylist(), table["horizon"].to_pylist(), strict=True)
    late = [ts <= horizon for ts, horizon in pairs]
    assert late[0] is False
    assert late[2:] == [True, False]
    assert client.info(RAW).frontier == start + 1000


def test_claim_fences_appends_of_older_epochs(client: AgentClient) -> None:
    client.create_stream("s", SCHEMA)
    client.append("s", rows((1, "a")))
    first = client.claim("s")
    assert (first.epoch, first.head) == (1, 2)
    client.append("s", rows((2, "b")), epoch=1)
    second = client.claim("s")
    for epoch in (None, 0, 1):
        with pytest.raises(FencedError):
            client.append("s", rows((3, "c")), epoch=epoch)
        with pytest.raises(FencedError):
            client.advance("s", epoch, frontier=5)
    with pytest.raises(ConflictError):
        client.append("s", rows((3, "c")), epoch=7)
    client.append("s", rows((4, "d")), epoch=second.epoch)
    assert client.read("s").table["word"].to_pylist() == ["a", "b", "d"]


def test_advance_moves_the_frontier_and_never_back(client: AgentClient) -> None:
    client.create_stream("s", SCHEMA)
    epoch = client.claim("s").epoch
    assert client.advance("s", epoch, frontier=10, attributes={"a": 1, "b": [2]}).frontier == 10
    state = client.advance("s", epoch, frontier=5, attributes={"a": None, "c": "x"})
    assert (state.frontier, state.attributes) == (10, {"b": [2], "c": "x"})
    assert client.append("s", rows((1, "a")), epoch=epoch).frontier == 10
    assert client.append("s", rows((2, "b")), epoch=epoch, frontier=20).frontier == 20
    assert client.append("s", rows((3, "c")), epoch=epoch, frontier=15).frontier == 20
    assert client.info("s").frontier == 20
    assert client.claim("s").attributes == {"b": [2], "c": "x"}


def test_attributes_in_a_large_body_are_refused(client: AgentClient) -> None:
    client.create_stream("s", SCHEMA)
    with pytest.raises(TooLargeError, match="and at most 2097152 are allowed"):
        client.advance("s", None, attributes={"a": [[]] * 2**20})


def test_seek_and_offset(client: AgentClient) -> None:
    client.create_stream("s", SCHEMA)
    epoch = client.claim("s").epoch  # takes number 0
    for frontier, batch in [
        (10, rows((11, "a"), (15, "b"))),
        (20, rows((12, "c"), (25, "d"))),
        (30, rows((22, "e"))),
        (40, rows((35, "f"), (31, "g"))),
    ]:
        client.append("s", batch, epoch=epoch)
        client.advance("s", epoch, frontier=frontier)
    expected = {10: 1, 14: 1, 15: 3, 24: 3, 25: 6, 34: 6, 35: 8}
    assert {time: client.seek("s", time) for time in expected} == expected

    def offset(start: int, most: int) -> tuple[int, int]:
        found = client.offset("s", start, most)
        assert found.head == 8
        return found.next, found.frontier

    assert offset(0, 1) == (1, 0)
    assert offset(0, 3) == (3, 0)
    assert offset(1, 1) == (3, 0)
    assert offset(1, 4) == (5, 10)
    assert offset(2, 3) == (5, 10)
    assert offset(5, 100) == (8, 40)
    assert offset(8, 5) == (8, 40)


def test_offset_waits_for_the_frontier(client: AgentClient, clock: ManualClock) -> None:
    head = client.info(RAW).head
    before = client.offset(RAW, head, 10)
    clock.now += 5
    after = client.offset(RAW, head, 10, wait_ms=20_000, after_frontier=before.frontier)
    assert (after.next, after.frontier) == (head, before.frontier + 5)
    assert client.offset(RAW, head, 10, wait_ms=1, after_frontier=after.frontier) == after


def test_follow_yields_later_rows(client: AgentClient, url: str, clock: ManualClock) -> None:
    client.put([Point("m", "e", clock.now, 1.0)])
    chunks = client.follow(RAW, match={"metric": "m"})
    assert next(chunks).rows["value"].to_pylist() == [1.0]
    writer = AgentClient(url)
    writer.put([Point("other", "e", clock.now, 2.0), Point("m", "e", clock.now, 3.0)])
    chunk = next(chunk for chunk in chunks if chunk.rows.num_rows)
    assert chunk.rows["value"].to_pylist() == [3.0]
    frontier, end = chunk.position.frontier, chunk.position.next
    clock.now += 1
    beat = next(chunk for chunk in chunks if chunk.position.frontier > frontier)
    assert beat.rows.num_rows == 0
    assert beat.position == Position(end, frontier + 1)
    writer.close()


async def test_async_follow_yields_later_rows(url: str, clock: ManualClock) -> None:
    client = AsyncAgentClient(url)
    seen: list[Chunk] = []
    await client.put([Point("m", "e", clock.now, 0.0)])
    async for chunk in client.follow(RAW):
        seen.append(chunk)
        values = [value for chunk in seen for value in chunk.rows["value"].to_pylist()]
        if len(values) == 5:
            break
        if chunk.rows.num_rows:
            await client.put([Point("m", "e", clock.now, len(values))])
    assert values == [0, 1, 2, 3, 4]
    await client.close()
