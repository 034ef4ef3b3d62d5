"""Local deletions: they remove only the rows before a position, before and after compaction."""

import pytest

from mistbow.errors import ConflictError
from mistbow.streams.schemas import POINTS
from storage_agent.streams import compaction
from storage_agent.streams.maintenance import Maintenance, StorageLimit
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.streams.opener import Opener, points
from tests.storage_agent.streams.test_compaction import everything, keep_all


async def test_local_deletion_applies_only_before_its_position(
    opener: Opener, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "SEGMENTS_PER_RUN", 5)
    stream = await opener.open(POINTS)
    begins = [(await stream.writer.append(points(5, 7))).first for _ in range(12)]
    before = begins[4]
    await stream.writer.delete(max_ts=5, before=before, local=True)
    left = [(row["number"], row["ts"]) for row in await everything(stream)]
    assert left == [
        (n, ts) for b in begins for n, ts in ((b, 5), (b + 1, 7)) if ts > 5 or b >= before
    ]
    # Later segments are as old, and are compacted together with the earlier ones.
    housekeeper = Maintenance(lambda: [stream.log], clock, StorageLimit, lambda _: True)
    await keep_all(housekeeper)
    [run, *_] = stream.log.manifest.current.runs
    assert run.first < before < run.next
    assert [(row["number"], row["ts"]) for row in await everything(stream)] == left
    with pytest.raises(ConflictError, match="inside a run"):
        await stream.writer.delete(max_ts=5, before=before, local=True)
    await stream.writer.delete(max_ts=5, before=run.next, local=True)
    assert all(row["ts"] == 7 or row["number"] >= run.next for row in await everything(stream))
