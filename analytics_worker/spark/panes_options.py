"""The options of the Spark source ``mistbow-panes``."""

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass

import msgspec

from analytics.plan.fragments import StreamLocation
from analytics.plan.nodes import Plan
from analytics_worker.merge.decisions import Checkpoint
from analytics_worker.query_lease import QueryLease


@dataclass(frozen=True, slots=True)
class PanesOptions:
    """The parsed options of the source ``mistbow-panes``, which ``panes_source`` documents."""

    url: str
    sources: tuple[StreamLocation, ...]
    panes: tuple[str, ...]
    decisions: StreamLocation | None
    checkpoint: Checkpoint | None
    target: StreamLocation | None
    fingerprint: str
    starts: Mapping[str, int]
    unsought: frozenset[str]
    resumed: frozenset[str]
    recorded: Mapping[str, int]
    needs: int
    grain_ms: int
    patience_ms: int
    since: int
    after: int
    lease: QueryLease | None
    min_ts: int | None
    max_ts: int | None
    usage: str | None

    @classmethod
    def parse(cls, options: MutableMapping[str, str]) -> "PanesOptions":
        """Parse Spark's options; raises ``ValueError`` for a missing or invalid option."""
        for needed in ("url", "sources", "panes"):
            if needed not in options:
                raise ValueError(f"the source mistbow-panes needs the option '{needed}'")

        def location(name: str) -> StreamLocation | None:
            return (
                msgspec.json.decode(options[name], type=StreamLocation) if name in options else None
            )

        def number(name: str) -> int:
            return int(options.get(name, 0))

        lease, checkpoint = options.get("lease"), options.get("checkpoint")
        return cls(
            url=options["url"],
            sources=msgspec.json.decode(options["sources"], type=tuple[StreamLocation, ...]),
            panes=msgspec.json.decode(options["panes"], type=tuple[str, ...]),
            decisions=location("decisions"),
            checkpoint=msgspec.json.decode(checkpoint, type=Checkpoint) if checkpoint else None,
            target=location("target"),
            fingerprint=options.get("fingerprint", ""),
            starts=msgspec.json.decode(options.get("starts", "{}"), type=dict[str, int]),
            unsought=msgspec.json.decode(options.get("unsought", "[]"), type=frozenset[str]),
            resumed=msgspec.json.decode(options.get("resumed", "[]"), type=frozenset[str]),
            recorded=msgspec.json.decode(options.get("recorded", "{}"), type=dict[str, int]),
            needs=number("needs"),
            grain_ms=number("grain") or 1000,
            patience_ms=number("patience"),
            since=number("since"),
            after=number("after"),
            lease=msgspec.json.decode(lease, type=QueryLease) if lease else None,
            min_ts=number("min_ts") if "min_ts" in options else None,
            max_ts=number("max_ts") if "max_ts" in options else None,
            usage=options.get("usage"),
        )


def panes_options(url: str, sources: Sequence[StreamLocation], plan: Plan) -> dict[str, str]:
    """Return the options with which ``mistbow-panes`` reads a plan's panes from ``sources``."""
    return {
        "url": url,
        "sources": msgspec.json.encode(tuple(sources)).decode(),
        "panes": msgspec.json.encode([pane.id for pane in plan.panes]).decode(),
        "grain": str(plan.grain_ms),
    }
