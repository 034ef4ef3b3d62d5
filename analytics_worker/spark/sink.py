"""The Spark sink ``mistbow-sink``: rows of a streaming DataFrame go to a storage agent's stream.

Options: ``url`` (of the agent), ``stream``, ``epoch``. A micro-batch may be written twice: rows of
results are idempotent by (insight, key, ts, revision).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from analytics_worker.spark.source import connect


class MistbowSink(DataSource):
    """Registers under the name ``mistbow-sink``."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "mistbow-sink"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        """Return the writer of a streaming query."""
        options = self.options
        return StreamWriter(options["url"], options["stream"], int(options["epoch"]))


@dataclass
class Written(WriterCommitMessage):
    """How many rows a task wrote."""

    rows: int


class StreamWriter(DataSourceStreamArrowWriter):
    """Appends what each task has to the stream; an older epoch is refused by the agent."""

    def __init__(self, url: str, stream: str, epoch: int) -> None:
        self._url = url
        self._stream = stream
        self._epoch = epoch

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Append the rows of one task, all at once."""
        batches = [batch for batch in iterator if batch.num_rows]
        if not batches:
            return Written(0)
        rows = pa.Table.from_batches(batches).combine_chunks()
        connect(self._url).append(self._stream, rows, epoch=self._epoch)
        return Written(rows.num_rows)
