"""The source of panes by itself: what Spark gets of it when there is nothing to read yet."""

import pyarrow as pa

from analytics_worker.spark.panes_source import PanesOptions, PanesStreamReader

OPTIONS = PanesOptions.parse(
    {
        "url": "http://127.0.0.1:1",
        "sources": '[{"site":"edge","stream":"panes/p"}]',
        "panes": '["p"]',
        "grain": "1000",
        "since": "5500",
    }
)


def test_a_first_micro_batch_that_is_too_early_has_a_task_which_closes_nothing() -> None:
    reader = PanesStreamReader(OPTIONS)
    start = reader.initialOffset()
    (part,) = reader.partitions(start, start)
    rows = pa.Table.from_batches(reader.read(part)).to_pylist()
    assert [(row["route"], row["due"]) for row in rows] == [(None, 0)]


def test_what_was_promised_is_closed_with_the_rows_that_came_by_then() -> None:
    reader = PanesStreamReader(OPTIONS)
    start = reader.initialOffset()
    assert start["promise"] == 5000
    end = {"next": {"edge": 0}, "frontier": 6000, "promise": 6000, "closed": 5000}
    (part,) = reader.partitions(start, end)
    rows = pa.Table.from_batches(reader.read(part)).to_pylist()
    assert [(row["route"], row["due"]) for row in rows] == [(None, 5000)]
