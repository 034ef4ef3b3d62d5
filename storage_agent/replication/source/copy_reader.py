"""Reads the rows and deletions of copies for followers, without the withheld series."""

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from mistbow.client.operation_model import Copy
from mistbow.errors import ConflictError, NotFoundError
from mistbow.streams.schemas import POINTS
from mistbow.streams.wire import Chunk
from storage_agent.replication.filters import match_points
from storage_agent.replication.source.copies import Copies
from storage_agent.replication.source.deletions import interleave_deletions
from storage_agent.streams import subscription
from storage_agent.streams.read_access import check_readable
from storage_agent.streams.small_parts import OpenSubscriptions, follow_in_small_parts
from storage_agent.streams.streams import Streams
from storage_agent.streams.subscription import RowSelection, RowSelector, SelectedRows
from storage_agent.timeseries.catalogue import Catalogue


class CopyReader:
    """Reads the rows and deletions of this site's copies, for the followers at the target sites."""

    def __init__(self, copies: Copies) -> None:
        self._copies = copies
        self._streams: Streams | None = None
        self._catalogue = Catalogue()

    def open(self, streams: Streams, catalogue: Catalogue) -> None:
        """Set the streams to read, and the catalogue of this site's series.

        The catalogue contains the groups of the series, which filters by group need.
        """
        self._streams = streams
        self._catalogue = catalogue

    async def follow(
        self,
        target: str,
        copy_id: str,
        start: int,
        deleted: int | None,
        subscriptions: OpenSubscriptions,
    ) -> tuple[pa.Schema, AsyncIterator[Chunk]]:
        """Return (schema of a copy, chunks of the copy from the position ``start`` on).

        A chunk contains either rows or a ``DeletionNotice``. The chunks continue as new rows
        arrive. ``deleted``: the number of the last deletion that the replica has applied; None: the
        replica is empty. ``subscriptions``: the open subscriptions of the agent; while they are
        many, the chunks are smaller. Raises ``ConflictError`` if ``target`` has no copy with the id
        ``copy_id``; the iteration over the chunks may raise other errors.
        """
        assert self._streams is not None  # noqa: S101 - the API answers once all is open
        self._copies.refresh()
        copy = self._copies.find_current(target, copy_id)
        check_readable(copy.stream)
        stream = await self._streams.get(copy.stream)
        log = stream.log
        selector = RowSelector(stream, RowSelection())
        found: AsyncIterator[SelectedRows]
        if subscriptions.are_many:
            found = follow_in_small_parts(log, selector, subscriptions, start)
        else:
            found = subscription.follow(log, selector, start)
        rows = (each.chunk async for each in found)
        chunks = interleave_deletions(
            rows, lambda: log.manifest.current, log.schema, start, deleted
        )
        return log.schema, self._filter_chunks(copy, chunks)

    async def _filter_chunks(
        self, copy: Copy, chunks: AsyncIterator[Chunk]
    ) -> AsyncIterator[Chunk]:
        has_begun = False
        try:
            async for chunk in chunks:
                # Restrictions may have changed: each chunk is checked by the present ones.
                self._copies.find_current(copy.target, copy.id)
                yield replace(chunk, rows=self._filter_rows(copy, chunk.rows))
                has_begun = True
        except (ConflictError, NotFoundError):
            # The copy was withdrawn, or its stream was deleted: an answer that has begun ends.
            if not has_begun:
                raise

    def _filter_rows(self, copy: Copy, rows: pa.RecordBatch) -> pa.RecordBatch:
        if rows.schema.names[: len(POINTS.names)] != POINTS.names:
            # Restrictions select series, so they withhold a whole stream without series.
            return rows.slice(0, 0) if copy.withheld else rows
        rows = rows.select(POINTS.names)
        masks = []
        if not copy.filter.all:
            masks.append(match_points(copy.filter, rows, self._catalogue))
        masks += [pc.invert(match_points(each, rows, self._catalogue)) for each in copy.withheld]
        return rows.filter(reduce(pc.and_, masks)) if masks and rows.num_rows else rows
