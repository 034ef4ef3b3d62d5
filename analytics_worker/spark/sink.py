"""The Spark sink ``mistbow-sink``, which writes a streaming DataFrame to a storage agent's stream.

Options: ``url`` (of the agent), ``site`` (the site of the stream; default: the agent's own),
``stream``, ``epoch`` or ``lease`` (JSON of ``QueryLease``), ``kind`` (``results``, the default, or
``panes``), ``usage`` (the folder in which the CPU time is recorded), and ``decisions`` (JSON of
``StreamLocation``: a stream of decisions, from which each result gets its missing sites) with
``checkpoint`` (JSON of ``Checkpoint``: where the decisions are read from) and ``sites`` (JSON: the
sites that the query reads; results name no other site). A micro-batch may be written twice: rows of
results are idempotent by (insight, key, ts, revision), and panes that are already stored are
omitted.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

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

from analytics.plan.fragments import StreamLocation
from analytics_worker.agent_clients import agent_client
from analytics_worker.evaluate.results import append_results
from analytics_worker.merge.decisions import Checkpoint, Presence, read_presence
from analytics_worker.query_lease import QueryLease
from analytics_worker.spark.pane_writer import append_panes
from analytics_worker.spark.task_usage import record_usage


class MistbowSink(DataSource):
    """The Spark sink that is registered under the name ``mistbow-sink``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "mistbow-sink"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        """Return the writer of a streaming query."""
        return StreamWriter(self.options)


@dataclass
class RowsWritten(WriterCommitMessage):
    """The number of rows that a task wrote."""

    rows: int


class StreamWriter(DataSourceStreamArrowWriter):
    """Appends the rows of each task to a stream; the agent refuses rows of an old epoch."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._url = options["url"]
        self._site = options.get("site", "")
        self._stream = options["stream"]
        lease = options.get("lease")
        self._lease = msgspec.json.decode(lease, type=QueryLease) if lease else None
        self._epoch = int(options.get("epoch", 0))
        self._kind = options.get("kind", "results")
        self._usage = options.get("usage")
        decisions = options.get("decisions")
        self._decisions = msgspec.json.decode(decisions, type=StreamLocation) if decisions else None
        checkpoint = options.get("checkpoint")
        self._checkpoint = msgspec.json.decode(checkpoint, type=Checkpoint) if checkpoint else None
        self._sites = msgspec.json.decode(options.get("sites", "[]"), type=frozenset[str])

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsWritten:
        """Append the rows of one task, and return the number of rows."""
        try:
            return self._write(iterator)
        finally:
            record_usage(self._usage)

    def _write(self, iterator: Iterator[pa.RecordBatch]) -> RowsWritten:
        batches = [batch for batch in iterator if batch.num_rows]
        if not batches:
            return RowsWritten(0)
        rows = pa.Table.from_batches(batches).combine_chunks()
        if self._lease is None:
            self._append(rows, self._epoch)
        else:
            # Of rows that both queries of a handover write, those of the first query must be first.
            self._lease.wait(pc.max(rows["due" if self._kind == "panes" else "ts"]).as_py())
            self._lease.append(self._lease.target, partial(self._append, rows))
        return RowsWritten(rows.num_rows)

    def _append(self, rows: pa.Table, epoch: int) -> None:
        agent = agent_client(self._url, self._site)
        if self._kind == "panes":
            append_panes(agent, self._stream, rows, epoch)
            return
        if self._decisions is not None:
            presence = read_presence(agent, self._decisions, self._checkpoint)
            rows = with_missing_sites(rows, presence, self._sites)
        append_results(agent, self._stream, rows, epoch)


def with_missing_sites(rows: pa.Table, presence: Presence, sites: Collection[str]) -> pa.Table:
    """Return results whose column ``missing`` names those of ``sites`` that each result lacks.

    Results up to ``named_after`` of a gap do not name its site, nor do their corrections. Decisions
    may name other sites: a query that reads them has begun, but has not taken over.
    """
    if not presence.gaps:
        return rows
    missing = {
        tick: ",".join(site for site in presence.named(tick) if site in sites) or None
        for tick in pc.unique(rows["ts"]).to_pylist()
    }
    column = pa.array([missing[tick] for tick in rows["ts"].to_pylist()], pa.string())
    return rows.set_column(rows.column_names.index("missing"), "missing", column)
