"""Forgetting the rows before a number, and no others, however they are merged."""

import pytest

from mistbow.errors import ConflictError
from mistbow.streams.schemas import POINTS
from storage_agent.streams import compaction
from storage_agent.streams.housekeeping import Bound, Housekeeper
from tests.storage_agent.conftest import HeldClock
from tests.storage_agent.streams.opening import Opener, points
from tests.storage_agent.streams.test_compaction import everything, keep_all


async def test_only_what_came_before_a_number_is_forgotten(
    opener: Opener, clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "COMMITS", 5)
    stream = await opener.open(POINTS)
    begins = [(await stream.writer.append(points(5, 7))).first for _ in range(12)]
    before = begins[4]
    await stream.writer.delete(max_ts=5, before=before, forgotten=True)
    left = [(row["number"], row["ts"]) for row in await everything(stream)]
    assert left == [
        (n, ts) for b in begins for n, ts in ((b, 5), (b + 1, 7)) if ts > 5 or b >= before
    ]
    # What came later is as old, and is merged with what came before.
    housekeeper = Housekeeper(lambda: [stream.log], clock, Bound, lambda _: True)
    await keep_all(housekeeper)
    [run, *_] = stream.log.manifest.current.runs
    assert run.first < before < run.next
    assert [(row["number"], row["ts"]) for row in await everything(stream)] == left
    with pytest.raises(ConflictError, match="merged with what came later"):
        await stream.writer.delete(max_ts=5, before=before, forgotten=True)
    await stream.writer.delete(max_ts=5, before=run.next, forgotten=True)
    assert all(row["ts"] == 7 or row["number"] >= run.next for row in await everything(stream))
