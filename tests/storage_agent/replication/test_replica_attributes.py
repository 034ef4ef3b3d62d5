"""The stored attributes of replicas, whose names other sites and earlier versions use, too."""

import msgspec
import pytest

from mistbow.client.operation_model import Copy
from storage_agent.replication.replica_attributes import read_attributes


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
