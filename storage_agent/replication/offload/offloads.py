"""The progress of offloads, stored as attributes of the stream ``raw``."""

import msgspec

from mistbow.client.operation_model import SeriesFilter
from storage_agent.streams.log import StreamLog

PREFIX = "moved."
"""The prefix of the names of the attributes that store offloads."""


class Offload(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={"replica": "kept", "deleted_before": "forgotten"},
):
    """The offload of the copy ``id`` to the site ``target``.

    The offloaded points have timestamps up to ``to`` (ms) and positions before ``before``.
    ``replica``: the ``ReplicaFact.instance`` of the replica that stores these points.
    ``deleted_before``: the position before which this site has deleted these points.
    """

    id: str
    target: str
    replica: str
    to: int
    before: int
    filter: SeriesFilter = SeriesFilter()
    deleted_before: int = 0

    def attributes(self) -> dict[str, object]:
        """Return the attributes of ``raw`` that store this offload."""
        return {PREFIX + self.id: msgspec.to_builtins(self)}

    def removal(self) -> dict[str, object]:
        """Return the change of the attributes of ``raw`` that removes this offload."""
        return {PREFIX + self.id: None}


def offloads_of(log: StreamLog) -> dict[tuple[str, str], Offload]:
    """Return the offloads that a stream records: (target, copy id) -> offload."""
    attributes = log.attributes.items()
    found = [msgspec.convert(v, Offload) for k, v in attributes if k.startswith(PREFIX)]
    return {(each.target, each.id): each for each in found}
