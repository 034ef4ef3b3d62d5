"""The panes that windows which end later still need, kept from micro-batch to micro-batch.

Each micro-batch adds a file. One that is repeated says the same again: it goes on from what the
one before it left, and replaces what it wrote. Nothing of it outlives the query; a later one
replays.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from analytics_worker.windowing.windows import PLACED, Panes, Shape, needed_after

_CLOSED = b"closed"
_BASE = b"base"
_MOST_FILES = 32
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


class KeptPanes:
    """The panes kept in a folder before a micro-batch, by its number.

    Raises ``FileNotFoundError`` where the micro-batch before it has left nothing there.
    """

    def __init__(self, folder: Path, batch: int) -> None:
        self._folder = folder
        self._batch = batch
        self._base = batch
        self.closed = 0
        kept = []
        if batch:
            newest = self._read(batch - 1)
            self.closed, self._base = (int(newest.schema.metadata[n]) for n in (_CLOSED, _BASE))
            kept = [self._read(number) for number in range(self._base, batch - 1)] + [newest]
        self.panes = pa.concat_tables(
            [PLACED.empty_table(), *(each.replace_schema_metadata() for each in kept)]
        )

    def keep(self, added: pa.Table, shapes: Sequence[Shape], closed: int) -> None:
        """Keep, for the next micro-batch, these too; all windows up to ``closed`` (ms) are told."""
        base = self._base
        if self._batch - base >= _MOST_FILES:
            base, added = self._batch, pa.concat_tables([self.panes, added])
        needed = added.filter(pa.array(needed_after(Panes.of(added), shapes, closed)))
        self._write(needed.replace_schema_metadata({_CLOSED: str(closed), _BASE: str(base)}))
        # The one before this is not repeated any more: it needs no files of its own.
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
