"""The Spark sink ``mistbow-sink``: rows of a streaming DataFrame go to a storage agent's stream.

Options: ``url`` (of the agent), ``site`` (whose stream; default the agent's own), ``stream``,
``epoch``, ``kind``: ``results`` (default) or ``panes``. A micro-batch may be written twice: rows of
results are idempotent by (insight, key, ts, revision), and of panes those that are there are left
out. With ``decisions`` (JSON of ``Place``) results tell who is missing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from analytics_worker.connection import connect
from analytics_worker.merging.decisions import Presence
from analytics_worker.merging.known import presence
from analytics_worker.results import append_results
from analytics_worker.spark.stored_panes import append_panes
from mistbow.plan.fragments import Place


class MistbowSink(DataSource):
    """Registers under the name ``mistbow-sink``."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "mistbow-sink"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        """Return the writer of a streaming query."""
        return StreamWriter(self.options)


@dataclass
class Written(WriterCommitMessage):
    """How many rows a task wrote."""

    rows: int


class StreamWriter(DataSourceStreamArrowWriter):
    """Appends what each task has to the stream; an older epoch is refused by the agent."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._url = options["url"]
        self._site = options.get("site", "")
        self._stream = options["stream"]
        self._epoch = int(options["epoch"])
        self._kind = options.get("kind", "results")
        decisions = options.get("decisions")
        self._decisions = msgspec.json.decode(decisions, type=Place) if decisions else None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Append the rows of one task, all at once."""
        batches = [batch for batch in iterator if batch.num_rows]
        if not batches:
            return Written(0)
        rows = pa.Table.from_batches(batches).combine_chunks()
        agent = connect(self._url, self._site)
        if self._kind == "panes":
            append_panes(agent, self._stream, rows, self._epoch)
        else:
            if self._decisions is not None:
                rows = _telling(rows, presence(agent, self._decisions))
            append_results(agent, self._stream, rows, self._epoch)
        return Written(rows.num_rows)


def _telling(rows: pa.Table, who: Presence) -> pa.Table:
    """Fill in the column that names the sites that a result does without."""
    if not who.gaps:
        return rows
    missing = {
        tick: ",".join(who.missing(tick)) or None for tick in pc.unique(rows["ts"]).to_pylist()
    }
    told = pa.array([missing[tick] for tick in rows["ts"].to_pylist()], pa.string())
    return rows.set_column(rows.column_names.index("missing"), "missing", told)
