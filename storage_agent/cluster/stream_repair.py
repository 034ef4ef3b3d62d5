"""Repairs streams that lost rows: restores the rows from a replica, or accepts the loss."""

from collections.abc import AsyncIterator, Mapping

import msgspec

from mistbow.clock import Clock
from mistbow.errors import ConflictError, InvalidRequestError, NotFoundError
from mistbow.streams.events import event_rows
from mistbow.streams.schemas import METADATA, RAW
from storage_agent.cluster.log_fill import LogFill, RepairResult, no_parts, number_rows
from storage_agent.cluster.losses import Loss
from storage_agent.cluster.replica_heads import own_store
from storage_agent.cluster.replica_rows import NumberedRows, ReplicaRows
from storage_agent.ignite.client import METADATA as METADATA_CACHE
from storage_agent.ignite.client import IgniteClient
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.facts import Facts, published_series, read_facts
from storage_agent.membership.journal import STORE, fact_batches
from storage_agent.membership.metadata_replicas import POSITION
from storage_agent.replication.follower.replica import record_loss
from storage_agent.streams.log import StreamLog
from storage_agent.streams.state import State
from storage_agent.streams.streams import REPLICA_PREFIX, Stream, Streams
from storage_agent.timeseries.checkpoint import APPLIED_KEY


class StreamRepair:
    """Repairs streams that lost rows.

    ``streams``: the streams that the agent's last recovery opened.
    """

    def __init__(
        self, streams: Streams, ignite: IgniteClient, membership: FabricMembership, clock: Clock
    ) -> None:
        self._streams = streams
        self._ignite = ignite
        self._membership = membership
        self._clock = clock

    async def repair(self, loss: Loss, site: str | None) -> RepairResult:
        """Repair a stream that lost rows; return the numbers of missing and of restored rows.

        ``site``: restore the rows from the replica at this site; None: accept the loss. Raises a
        ``MistbowError`` if the repair fails.
        """
        name = loss.stream
        rows = None if site is None else await self._open_replica(site, name)
        stream = self._streams.find_open(name)
        if stream is None and rows is not None:
            stream = await self._streams.restore(name, await rows.schema())
        # Without a stream and a replica, nothing remains of the stream, not even its schema.
        result = RepairResult() if stream is None else await self._fill(stream.log, loss, rows)
        if rows is None and stream is not None and name.startswith(REPLICA_PREFIX):
            await record_loss(stream)
        if name == RAW:
            await self._ignite.put(METADATA_CACHE, APPLIED_KEY, str(loss.head).encode())
        return result

    async def refollow(self, loss: Loss) -> None:
        """Reset a replica of another site's stream ``metadata``.

        The agent then copies all rows of the stream again.
        """
        stream = self._streams.find_open(loss.stream)
        if stream is not None:
            # Before the log is filled: a filled log does not show that it must be read again.
            await set_attributes(stream, {STORE: None, POSITION: 0})
            await self._fill(stream.log, loss, None)

    async def _fill(self, stream: StreamLog, loss: Loss, rows: ReplicaRows | None) -> RepairResult:
        if rows is None:
            fill = LogFill(stream, self._ignite, self._clock, loss.remembered)
            return await fill.fill(no_parts())
        facts = await rows.facts()
        if loss.stream == METADATA:
            missing = await self._missing_facts(facts)
            parts = self._fact_parts(missing, stream.head, loss.remembered)
            return await LogFill(stream, self._ignite, self._clock, loss.remembered).fill(parts)
        series = []
        if loss.stream == RAW:
            series = [metadata for _, metadata in published_series(facts)]
        fill = LogFill(stream, self._ignite, self._clock, loss.remembered, series)
        return await fill.fill(rows.parts(stream.head))

    async def _missing_facts(self, facts: Facts) -> dict[str, str]:
        stream = self._streams.find_open(METADATA)
        present = Facts() if stream is None else await read_facts(stream)
        return {key: event for key, event in facts.items() if present.get(key) != event}

    async def _fact_parts(
        self, facts: Mapping[str, str], start: int, stop: int
    ) -> AsyncIterator[NumberedRows]:
        for events in fact_batches(facts.items()):
            rows = event_rows(self._clock(), events).slice(0, stop - start)
            yield number_rows(rows, start)
            start += rows.num_rows

    async def _open_replica(self, site: str, name: str) -> ReplicaRows:
        if site == self._membership.site:
            raise InvalidRequestError(f"from: {site} is this site itself; name another site")
        try:
            rows = await ReplicaRows(self._membership.network, site, name).open()
        except NotFoundError as error:
            raise NotFoundError(
                f"the site {site} has no replica of the stream {name}: {error.message}",
                hint="GET /replication lists the sites with a replica.",
            ) from error
        own = own_store(self._streams)
        if own is not None and rows.store != own:
            raise ConflictError(
                f"the replica at the site {site} is a copy of another store, not "
                f"of this site's store"
            )
        return rows


async def set_attributes(stream: Stream, attributes: dict[str, str | int | None]) -> None:
    """Set attributes of a stream in Ignite, even while writes to the stream are refused.

    ``attributes``: name -> value; the value None removes the attribute.
    """

    def change(state: State) -> State:
        merged = {**state.attributes, **attributes}
        present = {name: value for name, value in merged.items() if value is not None}
        return msgspec.structs.replace(state, attributes=present)

    await stream.log.state.update(change)
