"""Compares the heads of this site's streams with the heads of their replicas at other sites."""

import asyncio
import contextlib
from collections.abc import Iterator

from mistbow.errors import MistbowError
from mistbow.streams.models import (
    StreamInfo,
)
from mistbow.streams.schemas import METADATA
from mistbow.telemetry import get_logger
from storage_agent.cluster.losses import Loss, LossRegister
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.facts import Facts, read_facts
from storage_agent.membership.journal import STORE
from storage_agent.membership.metadata_replicas import POSITION
from storage_agent.membership.peer_streams import fetch
from storage_agent.replication.facts import copies_of
from storage_agent.replication.replica_attributes import ReplicaAttributes, read_attributes
from storage_agent.streams.log import StreamLog
from storage_agent.streams.state import State
from storage_agent.streams.streams import REPLICA_PREFIX, Stream, Streams

log = get_logger(__name__)

_FOLLOWERS_S = 3.0
"""The maximum time (s) that a recovering agent waits for the sites with replicas to be reachable.

The agent waits for their answers for the same time.
"""


def store_of(state: State) -> str | None:
    """Return the name of the store, from the state of the stream ``metadata``.

    Returns None if the store has no name yet.
    """
    store: str | None = state.attributes.get(STORE)
    return store


def own_store(streams: Streams) -> str | None:
    """Return the name of this site's store; None: the store has no name yet."""
    metadata = streams.find_open(METADATA)
    return None if metadata is None else store_of(metadata.log.state.current)


def compare_head(stream: StreamLog, remembered: int, by: str, losses: LossRegister) -> None:
    """Record a loss if the head of a stream is less than a remembered head.

    ``by``: who remembers the head: ``this agent``, or the site of a replica.
    """
    if stream.head < remembered:
        losses.add(Loss(stream.name, stream.key, stream.head, remembered, by))


class ReplicaHeads:
    """Detects losses by comparing the heads of this site's streams with replicas at other sites.

    Only a site that may state facts about this site can show a loss: a stolen edge could otherwise
    make this agent refuse any stream. Greater positions at other sites are only logged.
    """

    def __init__(self, membership: FabricMembership, losses: LossRegister) -> None:
        self._membership = membership
        self._losses = losses
        self._compared: dict[str, bool] = {}
        """Site -> whether the site was allowed to show a loss when it was compared."""

    async def compare_all(self, streams: Streams) -> None:
        """Compare the heads of the streams with the replicas at all reachable sites.

        Waits up to ``_FOLLOWERS_S`` for the sites to be reachable, and as long for their answers.
        Sites that cannot show a loss are left to ``compare_new``.
        """
        if own_store(streams) is None:
            return  # no replica of a store without a name exists
        metadata = streams.find_open(METADATA)
        facts = Facts() if metadata is None else await read_facts(metadata)
        followers = {copy.target for copy in copies_of(facts)}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FOLLOWERS_S):
                while not followers <= self._reachable():
                    await self._membership.peers.changed().wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FOLLOWERS_S):
                sites = filter(self._membership.may_witness_losses, sorted(self._reachable()))
                await asyncio.gather(*(self._compare(streams, site, True) for site in sites))

    async def compare_new(self, streams: Streams) -> None:
        """Compare the heads of the streams with the replicas at newly reachable sites.

        If such a site does not answer, the next call tries again. A site is compared again once it
        may show a loss, because its facts have arrived or have changed.
        """
        reachable = self._reachable()
        self._compared = {site: by for site, by in self._compared.items() if site in reachable}
        for site in sorted(reachable):
            if self._compared.get(site):
                continue
            is_witness = self._membership.may_witness_losses(site)
            is_due = is_witness or site not in self._compared
            if is_due and await self._compare(streams, site, is_witness):
                self._compared[site] = is_witness

    def _reachable(self) -> set[str]:
        return {peer.site for peer in self._membership.peers if peer.address}

    async def _compare(self, streams: Streams, site: str, is_witness: bool) -> bool:
        """Compare the heads of the streams with the replicas at a site.

        ``is_witness``: whether a loss is recorded, or only logged. Returns whether the site
        answered.
        """
        try:
            target = f"/streams?site={site}".encode()
            network = self._membership.network
            answer = await fetch(network, site, target, dict[str, list[StreamInfo]])
            for replica, stream in self._whole_replicas(streams, answer.get("streams", [])):
                position = _source_position(replica)
                if is_witness:
                    compare_head(stream.log, position, site, self._losses)
                elif position > stream.log.head:
                    _log_ignored(stream, position, site)
                    break  # one line for each site: a stolen edge may state many positions
        except MistbowError as error:
            log.info("replica_heads_unavailable", site=site, error=error.message)
            return False
        except Exception as error:
            # The answer may come from any version of the agent; heads must still be saved.
            log.error("replica_heads_failed", site=site, exc_info=error)
            return False
        return True

    def _whole_replicas(
        self, streams: Streams, infos: list[StreamInfo]
    ) -> Iterator[tuple[StreamInfo, Stream]]:
        """Yield (replica, stream) for each unfiltered replica of a stream of this site.

        ``infos``: the descriptions of all streams at the other site.
        """
        prefix, own = f"{REPLICA_PREFIX}{self._membership.site}/", own_store(streams)
        for info in infos:
            if not info.name.startswith(prefix):
                continue
            attributes = read_attributes(info.attributes)
            stream = _source_of(streams, attributes, info.name.removeprefix(prefix))
            if stream is not None and own is not None and attributes.store == own:
                yield info, stream


def _log_ignored(stream: Stream, position: int, site: str) -> None:
    name, head = stream.name, stream.log.head
    log.warning("replica_head_ignored", site=site, stream=name, head=head, remembered=position)


def _source_of(streams: Streams, replica: ReplicaAttributes, name: str) -> Stream | None:
    """Return this site's stream that an unfiltered replica copies.

    Returns None if the replica is filtered, or if the stream was deleted or created again.
    ``name``: the name of the replica without the prefix of this site's replicas.
    """
    copy = replica.copy
    if copy is None:
        return streams.find_open(name)
    stream = streams.find_open(copy.stream)
    if not copy.filter.all or copy.withheld or stream is None:
        return None
    return stream if stream.incarnation == copy.incarnation else None


def _source_position(replica: StreamInfo) -> int:
    """Return the position in the source stream up to which the replica has the rows."""
    if POSITION in replica.attributes:
        return int(replica.attributes[POSITION])
    attributes = read_attributes(replica.attributes)
    return 0 if attributes.source is None else replica.frontier - attributes.base
