"""The attributes of a replica's stream that the source of the replica reads, too."""

from collections.abc import Mapping
from typing import Any

import msgspec

from mistbow.client.operation_model import Copy
from storage_agent.membership.journal import STORE

SOURCE = "of"
COPY = "copy"
BASE = "base"


class ReplicaAttributes(
    msgspec.Struct,
    frozen=True,
    rename={"source": SOURCE, "encoded_copy": COPY, "base": BASE, "store": STORE},
):
    """The attributes that define a replica, and its position in the source.

    ``source``: the source site; None: the stream is no replica, or a replica of metadata.
    ``encoded_copy``: the copy (JSON). ``base``: the difference between the frontier of the
    replica's stream and the position in the source. ``store``: the name of the source's store to
    which this position refers.
    """

    source: str | None = None
    encoded_copy: str | None = None
    base: int = 0
    store: str | None = None

    @property
    def copy(self) -> Copy | None:
        """The copy that defines the replica; None: the stream is no replica, or of metadata."""
        text = self.encoded_copy
        return None if text is None else msgspec.json.decode(text, type=Copy)


def read_attributes(attributes: Mapping[str, Any]) -> ReplicaAttributes:
    """Return the attributes of a replica from the attributes of its stream.

    Raises ``msgspec.ValidationError`` if they are invalid: other sites may send any values.
    """
    return msgspec.convert(attributes, ReplicaAttributes, strict=False)
