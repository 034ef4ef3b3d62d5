"""The stored attributes of replicas, whose names other sites and earlier versions use, too."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from mistbow.client.operation_model import Copy
from mistbow.streams.schemas import EVENTS
from storage_agent.ignite.client import IgniteClient
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.replication.follower.follower import Follower
from storage_agent.replication.replica_attributes import read_attributes
from storage_agent.settings import AgentSettings
from storage_agent.streams.log import StreamLog
from storage_agent.streams.segment_store import SegmentStore
from storage_agent.streams.state import State
from storage_agent.streams.streams import Stream
from storage_agent.streams.writer import Writer
from tests.storage_agent.conftest import ManualClock

COPY = msgspec.json.encode(Copy(id="4f", target="cloud", stream="x", why="", since=0)).decode()
OTHER_STREAMS: dict[str, dict[str, Any]] = {
    # The attributes of ``sampling`` have the names of sites, here of a site ``store``.
    "sampling": {"store": {"m": {}}},
    "client 1": {"of": 1, "copy": 2},
    "client 2": {"of": "edge", "copy": COPY},
    "client 3": {"base": "lab"},
    "replicas/edge/metadata": {"store": "5e", "position": 3},
    "replicas/edge/half made": {},
}
REPLICA = {"replicas/edge/x": {"of": "edge", "copy": COPY, "base": 3, "store": "5e"}}


def test_attributes_are_read_by_their_stored_names() -> None:
    copy = Copy(id="4f", target="cloud", why="", since=0)
    stored = {
        "of": "edge",
        "copy": msgspec.json.encode(copy).decode(),
        "base": 3,
        "store": "5e",
        "complete": True,
    }
    found = read_attributes(stored)
    assert (found.source, found.copy, found.base, found.store) == ("edge", copy, 3, "5e")


def test_stream_without_attributes_is_no_replica() -> None:
    found = read_attributes({"position": 7})
    assert (found.source, found.copy, found.base, found.store) == (None, None, 0, None)


@pytest.mark.parametrize("stored", [{"base": "x"}, {"of": 7}, {"store": []}])
def test_attributes_of_other_types_are_rejected(stored: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        read_attributes(stored)


def stream_with(name: str, attributes: dict[str, Any], clock: ManualClock) -> Stream:
    """Return a stream that has attributes, and no Ignite."""
    ignite = IgniteClient([])
    log = StreamLog(name, EVENTS, SegmentStore(ignite))
    log.state.current = State(attributes=attributes)
    return Stream(log, Writer(log, ignite, clock))


def test_only_replicas_are_opened_whatever_attributes_other_streams_have(
    tmp_path: Path, clock: ManualClock
) -> None:
    settings = AgentSettings(home=tmp_path)
    follower = Follower(FabricMembership(settings, clock), settings.home, 0, clock)
    stored = [stream_with(*each, clock) for each in (OTHER_STREAMS | REPLICA).items()]
    streams: Any = SimpleNamespace(all=lambda: stored)
    follower.open(streams)
    assert [each.name for each in follower.replicas()] == list(REPLICA)
