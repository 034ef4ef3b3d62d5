"""The attributes of a target: the stream to which a fragment writes its panes or results."""

from typing import Any, Self

import msgspec

from mistbow.streams.models import StreamInfo


class TargetAttributes(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={"insights": "outputs", "deciding": "decides"},
):
    """The attributes of a target, or a change to them; None: not stored, or not changed.

    Workers write them, and the worker that continues a fragment and the enabler read them.

    ``insights``: the uids of the insights that the results contain. ``sites``: the sites whose data
    the results contain. ``read``: stream -> the position from which a new query can read it.
    ``deciding``: the fingerprint of the merge that decides which sites are missing. ``begin``: the
    time (ms) after which all panes are stored. ``corrected``, ``decided``: the position in the
    source of a whole fragment, or in the decisions of a merge, before which all late data is
    processed.
    """

    insights: tuple[str, ...] | None = None
    sites: tuple[str, ...] | None = None
    read: dict[str, int] | None = None
    deciding: str | None = None
    begin: int | None = None
    corrected: int | None = None
    decided: int | None = None

    @classmethod
    def of(cls, target: StreamInfo) -> Self:
        """Return the attributes of a target; attributes that other services store are ignored."""
        return msgspec.convert(target.attributes, cls)

    def stored(self) -> dict[str, Any]:
        """Return the names and values that a stream stores; without those that are None."""
        stored: dict[str, Any] = msgspec.to_builtins(self)
        return stored
