"""The panes that later windows still need, retained from micro-batch to micro-batch.

Each micro-batch adds a file. A repeated micro-batch has the same result, since the repetition reads
the files of earlier micro-batches and replaces its own file. The files are deleted with the query;
a later query replays its stream.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from analytics_worker.evaluate.windows.windows import ROUTED_PANES, Panes, WindowShape, needed_after

_CLOSED = b"closed"
_BASE = b"base"
_MAX_FILES = 32
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


class RetainedPanes:
    """The panes that were retained in ``folder`` before the micro-batch with the number ``batch``.

    ``panes``: these panes. ``closed``: the time (ms) up to which earlier micro-batches have closed
    windows. Raises ``FileNotFoundError`` if the previous micro-batch wrote no file.
    """

    def __init__(self, folder: Path, batch: int) -> None:
        self._folder = folder
        self._batch = batch
        self._base = batch
        self.closed = 0
        tables = []
        if batch:
            newest = self._read(batch - 1)
            self.closed, self._base = (int(newest.schema.metadata[n]) for n in (_CLOSED, _BASE))
            tables = [self._read(number) for number in range(self._base, batch - 1)] + [newest]
        self.panes = pa.concat_tables(
            [ROUTED_PANES.empty_table(), *(each.replace_schema_metadata() for each in tables)]
        )

    def add(self, added: pa.Table, shapes: Sequence[WindowShape], closed: int) -> None:
        """Store the panes of ``added`` that belong to windows ending after ``closed`` (ms)."""
        base = self._base
        if self._batch - base >= _MAX_FILES:
            base, added = self._batch, pa.concat_tables([self.panes, added])
        needed = added.filter(pa.array(needed_after(Panes.of(added), shapes, closed)))
        self._write(needed.replace_schema_metadata({_CLOSED: str(closed), _BASE: str(base)}))
        # The micro-batch before this is not repeated any more: its files are not needed.
        for file in self._folder.glob("*.arrow"):
            if int(file.stem) < self._base:
                file.unlink()

    def _read(self, number: int) -> pa.Table:
        with pa.memory_map(str(self._file(number))) as file:
            return pa.ipc.open_file(file).read_all()

    def _write(self, panes: pa.Table) -> None:
        file = self._file(self._batch)
        written = file.with_suffix(".new")
        with pa.ipc.new_file(str(written), panes.schema, options=_COMPRESSED) as sink:
            sink.write_table(panes)
        written.replace(file)

    def _file(self, number: int) -> Path:
        return self._folder / f"{number}.arrow"
