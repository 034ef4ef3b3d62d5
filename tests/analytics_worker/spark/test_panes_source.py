"""The partitions of the source of panes while there are no panes to read."""

import pyarrow as pa

from analytics_worker.spark.panes_options import PanesOptions
from analytics_worker.spark.panes_source import PanesStreamReader

OPTIONS = PanesOptions.parse(
    {
        "url": "http://127.0.0.1:1",
        "sources": '[{"site":"edge","stream":"panes/p"}]',
        "panes": '["p"]',
        "grain": "1000",
        "since": "5500",
    }
)


def test_first_micro_batch_that_is_too_early_closes_nothing() -> None:
    reader = PanesStreamReader(OPTIONS)
    start = reader.initialOffset()
    (part,) = reader.partitions(start, start)
    rows = pa.Table.from_batches(reader.read(part)).to_pylist()
    assert [(row["route"], row["due"]) for row in rows] == [(None, 0)]


def test_promised_tick_is_closed_with_the_rows_before_it() -> None:
    reader = PanesStreamReader(OPTIONS)
    start = reader.initialOffset()
    assert start["promise"] == 5000
    end = {"next": {"edge": 0}, "frontier": 6000, "promise": 6000, "closed": 5000}
    (part,) = reader.partitions(start, end)
    rows = pa.Table.from_batches(reader.read(part)).to_pylist()
    assert [(row["route"], row["due"]) for row in rows] == [(None, 5000)]
