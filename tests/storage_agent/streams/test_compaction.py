"""Compaction, deletion, expiry and eviction of a stream, on a real Ignite."""

import asyncio
import random
from collections.abc import Callable

import prometheus_client
import pyarrow as pa
import pytest

from mistbow.client.operation_model import ConfigChange
from mistbow.errors import MistbowError, TooLargeError, UnavailableError
from mistbow.streams.events import REMOVED, event_rows
from mistbow.streams.schemas import EVENTS, POINTS
from storage_agent.agent.clock_steps import without_steps
from storage_agent.agent.config import ConfigCell, ConfiguredPolicies
from storage_agent.ignite.client import HISTORICAL
from storage_agent.request_key import RequestKey
from storage_agent.settings import AgentSettings
from storage_agent.streams import compaction
from storage_agent.streams.log import StreamLog
from storage_agent.streams.maintenance import GRACE_MS, Maintenance, StorageLimit
from storage_agent.streams.policy import StorageUsage
from storage_agent.streams.segment_store import SegmentStore
from storage_agent.streams.stream_removal import remove_data
from storage_agent.streams.streams import Stream
from storage_agent.streams.subscription import RowSelection, RowSelector, find_end, read
from storage_agent.timeseries.history import History
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.streams.opener import FixedPolicy, Opener, rows

LATE_MS = 1000


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let compaction merge even a few small segments."""
    monkeypatch.setattr(compaction, "SEGMENTS_PER_RUN", 5)
    monkeypatch.setattr(compaction, "FAN_IN", 3)


def points(chance: random.Random, now: int, count: int) -> pa.RecordBatch:
    metrics, entities = ([chance.choice(words) for _ in range(count)] for words in ("mn", "abcde"))
    times = [now - chance.randrange(3000) for _ in range(count)]
    values = [round(chance.uniform(0, 9), chance.choice((1, 17))) for _ in range(count)]
    return pa.RecordBatch.from_arrays(
        [
            *(pa.array(c, pa.string()).dictionary_encode() for c in (metrics, entities, entities)),
            pa.array(times, pa.int64()),
            pa.array(values),
        ],
        schema=POINTS,
    )


def keeper(
    clock: ManualClock, *logs: StreamLog, limit: Callable[[], StorageLimit] = StorageLimit
) -> Maintenance:
    return Maintenance(lambda: list(logs), clock, limit, lambda _: True)


async def keep_all(housekeeper: Maintenance) -> None:
    for _ in range(30):
        await housekeeper.run()


async def everything(stream: Stream, start: int = 0, **selection: object) -> list[dict]:
    """Return all rows from a position on, each with its position as ``number``.

    Checks that positions and frontiers never decrease.
    """
    rows, frontier, position = [], 0, start
    async for found in read(stream.log, RowSelector(stream, RowSelection(**selection)), start):
        for row, number in zip(found.rows.to_pylist(), found.positions.tolist(), strict=True):
            assert position <= number < found.position.next
            rows.append({**row, "number": number})
        assert found.position.next >= position
        assert found.position.frontier >= frontier
        position, frontier = found.position.next, found.position.frontier
    assert position == stream.log.head
    return rows


def ordered(found: list[dict]) -> list[tuple]:
    return sorted(tuple(row.values()) for row in found)


async def filled(opener: Opener, clock: ManualClock, commits: int = 40) -> tuple[Stream, list[int]]:
    """Return a stream of points, some late, and the positions at which its commits begin."""
    chance = random.Random(3)  # noqa: S311 - the same each time, by design
    stream = await opener.open(POINTS, LATE_MS)
    starts = []
    for _ in range(commits):
        clock.now += 500
        starts.append(stream.log.head)
        await stream.writer.append(points(chance, clock.now, chance.randrange(1, 9)))
    return stream, starts


async def test_compacted_stream_reads_as_before(opener: Opener, clock: ManualClock) -> None:
    stream, starts = await filled(opener, clock)
    numbers = range(stream.log.head)
    before = await everything(stream)
    assert [row["number"] for row in before] == list(numbers)
    late = await everything(stream, late=True)
    seeks = {
        time: await stream.log.seek(time) for time in range(clock.now - 20_000, clock.now, 700)
    }
    steps = {start: await find_end(stream.log, start, 20) for start in starts}
    await keep_all(keeper(clock, stream.log))
    assert len(stream.log.index) < 10
    assert stream.log.manifest.current.runs[0].level > 1
    for each in (stream, await opener.open(POINTS, LATE_MS)):
        for number in numbers:
            assert await everything(each, number) == before[number:]
        assert await everything(each, late=True) == late
        assert {time: await each.log.seek(time) for time in seeks} == seeks
        assert {start: await find_end(each.log, start, 20) for start in starts} == steps


async def test_page_from_within_a_run_with_deleted_rows_has_at_most_the_maximum_of_rows(
    opener: Opener, clock: ManualClock
) -> None:
    stream, _ = await filled(opener, clock)
    await stream.writer.delete(["entity"], [["a"], ["b"], ["c"], ["d"]])
    await keep_all(keeper(clock, stream.log))
    chance = random.Random(7)  # noqa: S311 - the same each time, by design
    for _ in range(4):
        await stream.writer.append(points(chance, clock.now, 6))
    assert len(stream.log.index) > 4
    found = await everything(stream)
    assert len(found) < stream.log.head / 2
    for max_rows in (8, 20):
        for start in range(stream.log.head):
            end = (await find_end(stream.log, start, max_rows)).next
            assert end > start
            assert sum(start <= row["number"] < end for row in found) <= max_rows


async def test_history_reads_only_the_blocks_of_its_series(
    opener: Opener, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_agent.streams.runs._ROWS_PER_BLOCK", 16)
    stream, _ = await filled(opener, clock)
    history = History(stream.log)
    start, end = clock.now - 12_000, clock.now - 4000
    series = [("m", "a"), ("n", "c")]

    async def read_now() -> list[tuple]:
        return ordered((await history.read(series, start, end)).to_pylist())

    before = await read_now()
    assert before
    await keep_all(keeper(clock, stream.log))
    assert max(run.blocks for run in stream.log.manifest.current.runs) > 4
    assert await read_now() == before


async def test_deleted_rows_are_invisible_at_once_and_after_compaction(
    opener: Opener, clock: ManualClock
) -> None:
    stream, _ = await filled(opener, clock)
    await keep_all(keeper(clock, stream.log))
    chance = random.Random(4)  # noqa: S311
    for _ in range(7):
        clock.now += 500
        await stream.writer.append(points(chance, clock.now, 4))
    limit = clock.now - 9000
    expected = ordered(
        row
        for row in await everything(stream)
        if not ((row["metric"], row["entity"]) in {("m", "a"), ("n", "b")} and row["ts"] <= limit)
    )
    keys = [("m", "a"), ("n", "b")]
    await stream.writer.delete(("metric", "entity"), keys, None, limit)
    assert ordered(await everything(stream)) == expected
    again = await opener.open(POINTS, LATE_MS)
    assert ordered(await everything(again)) == expected
    for _ in range(6):
        await stream.writer.append(points(chance, clock.now, 1))
    expected = ordered(await everything(stream))
    await keep_all(keeper(clock, stream.log))
    assert not stream.log.manifest.current.tombstones
    assert ordered(await everything(await opener.open(POINTS, LATE_MS))) == expected


async def test_expired_rows_are_invisible_inside_runs(opener: Opener, clock: ManualClock) -> None:
    stream, starts = await filled(opener, clock)
    housekeeper = keeper(clock, stream.log)
    rest = ordered(await everything(stream, starts[25]))
    await keep_all(housekeeper)
    created = clock.now - 500 * (len(starts) - 1 - 25)
    stream.log.policy = FixedPolicy(created)
    assert ordered(await everything(stream)) == rest
    await keep_all(housekeeper)
    assert stream.log.first > 0
    assert ordered(await everything(stream)) == rest
    again = ordered(await everything(await opener.open(POINTS, LATE_MS)))
    assert set(rest) <= set(again)
    assert len(again) < 2 * len(rest)


async def test_stream_of_decisions_is_bounded_by_number_and_by_retention(
    opener: Opener, clock: ManualClock, settings: AgentSettings
) -> None:
    config = ConfigCell(settings.model_copy(update={"retention_s": 10}), opener.ignite)
    policies = ConfiguredPolicies(config, without_steps(clock), StorageUsage())
    of_enabler, of_merge = policies.policy_of("decisions"), policies.policy_of("decisions/all.fair")
    assert (of_enabler.latest_per_key, of_enabler.retention_ms()) == (True, 10_000)
    # A replay needs each decision of a merge.
    assert (of_merge.latest_per_key, of_merge.retention_ms()) == (False, None)


@pytest.mark.parametrize("name", ["deployments", "deployments/north", "placements/north"])
async def test_state_of_an_enabler_is_bounded_by_its_number_of_keys(
    opener: Opener, clock: ManualClock, settings: AgentSettings, name: str
) -> None:
    policies = ConfiguredPolicies(
        ConfigCell(settings, opener.ignite), without_steps(clock), StorageUsage()
    )
    stream = await opener.open(EVENTS)
    stream.log.policy = policies.policy_of(name)
    for version in range(32):
        await stream.writer.append(event_rows(clock.now, {f"d-{version % 3}": str(version)}))
    await keep_all(keeper(clock, stream.log))
    found = await everything(stream)
    assert len(found) < 20
    assert {row["key"]: row["event"] for row in found} == {"d-0": "30", "d-1": "31", "d-2": "29"}


async def test_retention_lease_delays_expiry(
    opener: Opener, clock: ManualClock, settings: AgentSettings
) -> None:
    stream = await opener.open()
    config = ConfigCell(settings.model_copy(update={"retention_s": 10}), opener.ignite)
    begin = clock.now
    policy = ConfiguredPolicies(config, without_steps(clock), StorageUsage()).policy_of("s")

    def expired_before() -> int:
        return policy.expired_before(stream.log.state.current) - begin

    assert expired_before() == -10_000
    await stream.writer.retain("one", 60_000, 5000)
    await stream.writer.retain("two", 20_000, 50_000)
    assert expired_before() == -60_000
    clock.now += 6000
    assert expired_before() == 6000 - 20_000
    await config.change(ConfigChange(streams={"s": None}))
    assert expired_before() < -(2**60)
    again = ConfigCell(settings, opener.ignite)
    await again.load()
    assert again.current.streams == {"s": None}


async def test_garbage_is_removed_after_the_grace_period(
    opener: Opener, clock: ManualClock
) -> None:
    stream, _ = await filled(opener, clock)
    housekeeper = keeper(clock, stream.log)
    await keep_all(housekeeper)
    clock.now += GRACE_MS
    await keep_all(housekeeper)
    manifest = stream.log.manifest.current
    assert not manifest.garbage
    remaining = {
        f"s/run/{run.id}/{part}"
        for run in manifest.runs
        for part in [*map(str, range(run.blocks)), "commits"]
    }
    stored = set(await opener.ignite.scan(HISTORICAL))
    tail = {key for key in stored if "/run/" not in key}
    assert stored - tail == remaining
    assert len(tail) < 10
    await remove_data(stream.log)
    assert not await opener.ignite.scan(HISTORICAL)


async def test_interrupted_compaction_leaves_no_keys(
    opener: Opener, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, _ = await filled(opener, clock)
    before = ordered(await everything(stream))
    put_part = stream.log.store.put_run_value
    left = [3]

    async def dies(*args: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("the agent dies here")
        await put_part(*args)

    monkeypatch.setattr(stream.log.store, "put_run_value", dies)
    await keeper(clock, stream.log).run()
    assert stream.log.manifest.current.building
    again = await opener.open(POINTS, LATE_MS)
    assert ordered(await everything(again)) == before
    await keep_all(keeper(clock, again.log))
    assert again.log.manifest.current.building is None
    assert ordered(await everything(again)) == before
    assert len(again.log.index) < 10


async def test_idempotency_keys_survive_compaction(opener: Opener, clock: ManualClock) -> None:
    stream = await opener.open()
    for i in range(22):
        await stream.writer.append(rows(i), key=RequestKey(f"k{i}"))
    await keep_all(keeper(clock, stream.log))
    again = await opener.open()
    assert len(again.log.index) < 10
    for i in range(22):
        assert (await again.writer.append(rows(i), key=RequestKey(f"k{i}"))).first == i
    assert again.log.head == 22


async def test_key_of_a_body_is_forgotten_once_points_are_deleted(
    opener: Opener, clock: ManualClock
) -> None:
    chance = random.Random(1)  # noqa: S311 - the same each time, by design
    stream = await opener.open(POINTS)
    sent, of_client = RequestKey.of_body("lines", "1"), RequestKey("chosen")
    for key in (sent, of_client):
        await stream.writer.append(points(chance, clock.now, 1), key=key)
    await stream.writer.delete(local=True)
    assert stream.log.keys.get(sent) is not None
    await stream.writer.delete()
    for _ in range(10):
        await stream.writer.append(points(chance, clock.now, 1))
    await stream.writer.append(points(chance, clock.now, 1), key=RequestKey.of_body("lines", "2"))
    restarted = await opener.open(POINTS)
    await keep_all(keeper(clock, stream.log))
    assert not stream.log.manifest.current.tombstones
    for each in (stream, restarted, await opener.open(POINTS)):
        assert each.log.keys.get(sent) is None
        assert each.log.keys.get(of_client) is not None
        assert each.log.keys.get(RequestKey.of_body("lines", "2")) is not None


async def test_compaction_retains_the_last_event_of_each_key(
    opener: Opener, clock: ManualClock
) -> None:
    stream = await opener.open(EVENTS)
    stream.log.policy = FixedPolicy(latest_per_key=True)
    for i in range(32):
        row = pa.RecordBatch.from_arrays([[i], [f"k{i % 3}"], [str(i)]], schema=EVENTS)
        await stream.writer.append(row)
    await keep_all(keeper(clock, stream.log))
    found = await everything(stream)
    assert len(found) < 20
    last = {row["key"]: row["event"] for row in found}
    assert last == {"k0": "30", "k1": "31", "k2": "29"}
    assert (await everything(stream, 31)) == [{"ts": 31, "key": "k1", "event": "31", "number": 31}]


async def test_compaction_drops_old_removals_of_series_from_the_first_run(
    opener: Opener, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "SEGMENTS_PER_RUN", 4)
    stream = await opener.open(EVENTS)
    stream.log.policy = FixedPolicy(latest_per_key=True)
    old = clock.now
    events = [("series/a", "1"), ("series/b", "1"), ("worker/w", "1")]
    removed = [(key, REMOVED) for key, _ in events]
    for key, event in (*events, *removed, ("series/c", "1"), ("series/c", REMOVED)):
        await stream.writer.append(event_rows(clock.now, {key: event}))

    async def keys_after(age_ms: int) -> dict[str, str]:
        clock.now = old + age_ms
        await stream.writer.append(event_rows(clock.now, {"site": str(age_ms)}))
        await keep_all(keeper(clock, stream.log))
        return {row["key"]: row["event"] for row in await everything(stream)}

    young = {"series/a", "series/b", "series/c", "worker/w"}
    assert young <= (await keys_after(compaction.REMOVAL_AGE_MS - 1)).keys()
    for more in range(1, 40):
        left = await keys_after(compaction.REMOVAL_AGE_MS + more)
    assert left == {"worker/w": REMOVED, "site": str(compaction.REMOVAL_AGE_MS + 39)}


def limit_evicted_rows() -> float:
    name = "mistbow_agent_limit_evicted_rows_total"
    return prometheus_client.REGISTRY.get_sample_value(name) or 0.0


async def test_storage_limit_evicts_the_oldest_rows_or_rejects_writes(
    opener: Opener, clock: ManualClock
) -> None:
    stream, starts = await filled(opener, clock)
    newest = ordered(await everything(stream, starts[-1]))
    await keep_all(keeper(clock, stream.log))
    taken = stream.log.index.bytes
    refusing = keeper(clock, stream.log, limit=lambda: StorageLimit(taken // 2, evict=False))
    await refusing.run()
    assert refusing.usage.is_full
    assert stream.log.first == 0
    evicting = keeper(clock, stream.log, limit=lambda: StorageLimit(taken // 2))
    stored, counted = len(ordered(await everything(stream))), limit_evicted_rows()
    await evicting.run()
    left = len(ordered(await everything(stream)))
    assert limit_evicted_rows() - counted == stored - left > 0
    assert not evicting.usage.is_full
    assert stream.log.index.bytes <= taken // 2
    assert stream.log.first > 0
    assert set(newest) <= set(ordered(await everything(stream)))


async def test_run_with_deleted_rows_retains_all_others(
    opener: Opener, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_agent.streams.runs._ROWS_PER_BLOCK", 16)
    stream, _ = await filled(opener, clock)
    await keep_all(keeper(clock, stream.log))
    for keys in ([(m, e) for m in "mn" for e in "abc"], [("nothing", "at all")], [("m", "d")]):
        await stream.writer.delete(("metric", "entity"), keys)
        expected = ordered(await everything(stream))
        await keep_all(keeper(clock, stream.log))
        assert expected
        assert ordered(await everything(stream)) == expected


@pytest.mark.parametrize("lost", [2, 3])
async def test_manifest_swap_with_a_lost_answer_is_recognized(
    opener: Opener, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    stream, _ = await filled(opener, clock)
    before = ordered(await everything(stream))
    replace = opener.ignite.replace
    calls = [0]

    async def unanswered(cache: str, key: str, old: str, new: str) -> bool:
        landed = await replace(cache, key, old, new)
        if key.startswith("manifest/"):
            calls[0] += 1
            if calls[0] == lost:
                raise UnavailableError("the answer is lost")
        return landed

    monkeypatch.setattr(opener.ignite, "replace", unanswered)
    housekeeper = keeper(clock, stream.log)
    await keep_all(housekeeper)
    clock.now += GRACE_MS
    await keep_all(housekeeper)
    assert calls[0] > lost
    assert len(stream.log.index) < 10
    for each in (stream, await opener.open(POINTS, LATE_MS)):
        assert ordered(await everything(each)) == before


async def test_rows_larger_than_one_value_are_stored_in_several(
    opener: Opener, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema([pa.field("data", pa.binary(), nullable=False)])
    stream = await opener.open(schema)
    data = [random.Random(number).randbytes(900_000) for number in range(16)]  # noqa: S311
    appends = [
        stream.writer.append(pa.RecordBatch.from_arrays([[each]], schema=schema)) for each in data
    ]
    await asyncio.gather(*appends)
    await keep_all(keeper(clock, stream.log))
    stored = await opener.ignite.scan(HISTORICAL)
    assert max(map(len, stored.values())) < 7 * 2**20
    assert [row["data"] for row in await everything(stream)] == data
    with pytest.raises(TooLargeError):
        await stream.writer.append(
            pa.RecordBatch.from_arrays([[random.Random(1).randbytes(8_000_000)]], schema=schema)  # noqa: S311
        )


async def test_interrupted_removal_of_a_stream_can_be_repeated(
    opener: Opener, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, _ = await filled(opener, clock)
    await keep_all(keeper(clock, stream.log))
    remove_all = opener.ignite.remove_all
    for calls in range(1, 4):
        left = [calls]

        async def dies(cache: str, keys: list[str], left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise UnavailableError("the agent dies here")
            await remove_all(cache, keys)

        monkeypatch.setattr(opener.ignite, "remove_all", dies)
        with pytest.raises(UnavailableError):
            await remove_data(stream.log)
    monkeypatch.setattr(opener.ignite, "remove_all", remove_all)
    await remove_data(stream.log)
    assert not await opener.ignite.scan(HISTORICAL)


async def test_store_names_key_of_damaged_block(opener: Opener) -> None:
    store = SegmentStore(opener.ignite)
    await store.put_run_value("s", "r", "0", b"damaged")
    with pytest.raises(MistbowError, match="a stored block cannot be decoded: s/run/r/0"):
        await store.rows("s", "r")
