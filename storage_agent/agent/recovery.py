"""Recovery: builds an agent's components from the data in Ignite."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass

from mistbow.clock import Clock
from mistbow.errors import UnavailableError
from mistbow.runtime.slices import STORED, Slices
from mistbow.streams.schemas import METADATA as METADATA_STREAM
from mistbow.streams.schemas import RAW, is_permanent
from storage_agent import metrics
from storage_agent.agent.clock_steps import Ago
from storage_agent.agent.config import ConfigCell, ConfiguredPolicies
from storage_agent.cluster.loss_guard import LossGuard
from storage_agent.cluster.memory_region import MemoryRegion
from storage_agent.ignite.client import METADATA, IgniteClient
from storage_agent.ignite.keys import RESTORED_SITE_KEY, RESTORING_KEY
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.facts import published_series, read_facts
from storage_agent.records.store import RecordStore
from storage_agent.replication.replication import Replication
from storage_agent.series import series_of
from storage_agent.settings import AgentSettings
from storage_agent.streams.consumer import SegmentConsumer
from storage_agent.streams.index import IndexEntry
from storage_agent.streams.maintenance import Maintenance, StorageLimit
from storage_agent.streams.policy import StorageUsage
from storage_agent.streams.segments import Segment
from storage_agent.streams.streams import Stream, Streams
from storage_agent.timeseries.aggregation import Aggregation
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.history import History
from storage_agent.timeseries.point_queries import PointReader
from storage_agent.timeseries.points import PointEncoder
from storage_agent.timeseries.removal import PointRemover


@dataclass(frozen=True, slots=True)
class RecoveredParts:
    """The components of an agent that read and write the data in Ignite.

    ``epoch``: the epoch with which this agent has claimed the stream ``raw``.
    """

    streams: Streams
    raw: Stream
    epoch: int
    config: ConfigCell
    region: MemoryRegion
    maintenance: Maintenance
    remover: PointRemover
    catalogue: Catalogue
    encoder: PointEncoder
    reader: PointReader
    history: History
    aggregation: Aggregation


@dataclass(frozen=True, slots=True)
class SeriesOfSegments:
    """Derives the catalogue from the segments of ``raw``, and publishes new series."""

    catalogue: Catalogue
    membership: FabricMembership

    async def apply(self, segment: Segment, entry: IndexEntry) -> None:
        """Apply a segment to the catalogue, and publish its new series."""
        async for metadata in Slices(kind=STORED).over(await self.catalogue.apply(segment)):
            # The series may have been removed meanwhile.
            if self.catalogue.contains(series_of(metadata)):
                self.membership.publish_series([metadata])
        metrics.LATE_POINTS.inc(entry.late)
        metrics.FUTURE_POINTS.inc(segment.future_points.num_rows)


@dataclass(frozen=True, slots=True)
class Recovery:
    """Recovers an agent's components; after an error, ``run`` may be called again.

    ``expiry_ago``: the clock by which rows expire. ``unstored``: see ``History``.
    """

    settings: AgentSettings
    clock: Clock
    expiry_ago: Ago
    ignite: IgniteClient
    membership: FabricMembership
    guard: LossGuard
    replication: Replication
    records: RecordStore
    unstored: Callable[[], list[str]]

    async def run(self) -> RecoveredParts:
        """Read the data in Ignite, claim ``raw``, and return the agent's components.

        Raises ``MistbowError``, usually ``UnavailableError``. Before an error is raised, all
        streams are closed.
        """
        config = ConfigCell(self.settings, self.ignite)
        await config.load()
        usage = StorageUsage()
        region = MemoryRegion(self.ignite, usage)
        await region.open()

        def limit() -> StorageLimit:
            return region.limit(config.storage_limit())

        policies = ConfiguredPolicies(config, self.expiry_ago, usage)
        lateness_ms = self.settings.lateness_ms
        streams = Streams(
            self.ignite, self.clock, lateness_ms, policies.policy_of, self.guard.check
        )
        self.ignite.expect(streams.expected_keys, end_process)
        try:
            metadata = await self.ignite.scan(METADATA)
            if RESTORING_KEY in metadata:
                raise UnavailableError(
                    f"the restoration of the backup {metadata[RESTORING_KEY]} was interrupted",
                    hint="Stop the agent, and repeat the command mistbow restore.",
                )
            self._check_site(metadata)
            await self.guard.identify_store(metadata)
            await streams.recover(metadata)
            await self.guard.inspect(streams, metadata)
            raw = await streams.get(RAW)
            catalogue = await self._recover_catalogue(streams, raw, metadata)
            epoch = await raw.writer.claim_timed()
            await streams.take_over(epoch)
            self.replication.offloaded.open(streams)
            remover = PointRemover(raw, catalogue, self.replication.offloaded)
            await remover.finish_deletions()
            await self.records.open(streams)
            # The parts that start tasks on these streams come last: nothing after them may fail.
            series = catalogue.select().rows()
            await self.membership.open(streams, series, catalogue.contains)
            replaces = self.settings.duplicates == "replace"
            history = History(
                raw.log, self.replication.offloaded, replaces=replaces, unstored=self.unstored
            )
            self.replication.open(streams, catalogue, limit)
            return RecoveredParts(
                streams=streams,
                raw=raw,
                epoch=epoch,
                config=config,
                region=region,
                maintenance=Maintenance(
                    lambda: [stream.log for stream in streams.all()],
                    self.clock,
                    limit,
                    lambda name: not is_permanent(name),
                    self.replication.copies.unacknowledged,
                    self.replication.copies.owed_to_offloads,
                    usage,
                ),
                remover=remover,
                catalogue=catalogue,
                encoder=PointEncoder(self.settings, catalogue, self.settings.max_series),
                reader=PointReader(self.settings.node, catalogue, history),
                history=history,
                aggregation=Aggregation(self.settings.node, catalogue, history),
            )
        except BaseException:
            await streams.close()
            raise

    def _check_site(self, metadata: dict[str, object]) -> None:
        """Raise ``UnavailableError`` if the data is the restored backup of another site.

        The fabric would have two sites with the same data, and with the same workers.
        """
        site = metadata.get(RESTORED_SITE_KEY, self.settings.site)
        if site != self.settings.site:
            raise UnavailableError(
                f"the data is that of the site {site}, restored from a backup, and MISTBOW_SITE is "
                f"{self.settings.site}",
                hint=f"Start the agent with MISTBOW_SITE={site}.",
            )

    async def _recover_catalogue(
        self, streams: Streams, raw: Stream, metadata: dict[str, object]
    ) -> Catalogue:
        catalogue = Catalogue(raw.log.expired_before)
        await catalogue.recover(self.ignite, metadata, raw.log)
        if catalogue.is_rebuilt:
            published = await read_facts(await streams.get(METADATA_STREAM))
            await catalogue.restore_metadata(published_series(published))
        derived = SeriesOfSegments(catalogue, self.membership)
        raw.log.attach(SegmentConsumer(derived.apply, catalogue.checkpointed_position))
        return catalogue


def end_process() -> None:
    """End this process immediately, because its view of the data in Ignite may be wrong.

    The supervisor of the process restarts it, and the new process recovers from the data in Ignite.
    After a loss of data, a process that continued would acknowledge appends at positions after the
    lost rows, and a later recovery would not find the appended rows.
    """
    logging.shutdown()
    os._exit(1)
