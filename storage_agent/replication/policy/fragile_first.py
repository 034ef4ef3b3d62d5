"""The built-in policy: complete copies if this site is fragile, or copies of selected series."""

from collections.abc import Callable, Iterable, Iterator

from mistbow.client.operation_model import Copy
from mistbow.streams.schemas import RAW
from storage_agent.replication.filters import EVERYTHING, covers
from storage_agent.replication.policy.frequent_reads import by_load, by_reads
from storage_agent.replication.policy.rebalancing import by_disk, by_insights, by_workers
from storage_agent.replication.policy.targets import best_target, remains_eligible
from storage_agent.replication.policy.view import CopyDecision, View

FRAGILE = 0.4
STEADY = 0.55
"""The limits of stability: a site becomes fragile below ``FRAGILE``.

A fragile site becomes steady once its stability reaches ``STEADY``.
"""

FRAGILITY = "fragility"

_FRAGILE_LABELS = {"fragile": ("true", "1", "yes"), "battery": ("true", "1", "yes")}


class FragileFirst:
    """The built-in policy ``fragile-first``; its rules are described in docs/replication.md."""

    def decide(self, view: View) -> tuple[CopyDecision, ...]:
        """Return all copies of this site's streams that must exist."""
        decisions: list[CopyDecision] = []
        taken: list[CopyDecision | Copy] = [copy for copy in view.copies if copy.manual]
        for trigger in _TRIGGERS:
            for decision in trigger(view):
                if not any(_is_part_of(decision, other) for other in taken):
                    decisions.append(decision)
                    taken.append(decision)
        return tuple(decisions)


def _is_part_of(decision: CopyDecision, other: CopyDecision | Copy) -> bool:
    """Return whether ``other`` has the same target and stream as a decision, and all its rows."""
    same = (decision.target, decision.stream) == (other.target, other.stream)
    return same and covers(other.filter, decision.filter)


def by_fragility(view: View) -> Iterator[CopyDecision]:
    """Yield decisions for complete copies of a fragile site's points and records.

    If all present targets of these copies are unreachable, the copies get a further target.
    """
    if is_fragile(view):
        for stream in (RAW, *view.record_streams):
            yield from _full_copies(view, stream)


def _full_copies(view: View, stream: str) -> Iterator[CopyDecision]:
    # Restrictions select series, so they withhold a whole stream without series.
    may_receive = view.may_receive_some if stream == RAW else view.may_receive_all
    sites = {site.name: site for site in view.others if may_receive(site, EVERYTHING)}
    why = f"{view.here.name} is fragile"
    present = [copy for copy in view.decided(FRAGILITY) if copy.stream == stream]
    present.sort(key=lambda copy: copy.since)
    targets = [
        copy.target
        for copy in present
        if remains_eligible(view, sites.get(copy.target), EVERYTHING)
    ]
    for target in targets:
        yield CopyDecision(target, EVERYTHING, why, FRAGILITY, stream=stream)
        if sites[target].reachable:
            return
    others = (site for name, site in sites.items() if name not in targets)
    if (best := best_target(view, EVERYTHING, others)) is not None:
        yield CopyDecision(best.name, EVERYTHING, why, FRAGILITY, stream=stream)


def is_fragile(view: View) -> bool:
    """Return whether this site is fragile, as its labels or its low stability indicate."""
    here = view.here
    is_labelled = any(
        here.labels.get(name, "").lower() in values for name, values in _FRAGILE_LABELS.items()
    )
    was_fragile = bool(view.decided(FRAGILITY))
    return is_labelled or here.stability < (STEADY if was_fragile else FRAGILE)


_TRIGGERS: tuple[Callable[[View], Iterable[CopyDecision]], ...] = (
    by_disk,  # first: an offloaded copy serves all other causes too
    by_fragility,
    by_reads,
    by_load,
    by_insights,
    by_workers,
)
