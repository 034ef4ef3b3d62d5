"""The ticks that a step of a corrector cannot correct, since a site does not answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from analytics_worker.late_data.silent_sites import SilentSites
from analytics_worker.late_data.tick_spans import TickSpan, merge_spans
from mistbow.errors import UnavailableError


@dataclass(slots=True, eq=False)
class UnansweredTicks:
    """The ticks of one step whose correction waits for a site.

    ``may_wait``: whether the correction of ticks may wait. ``silent``: the sites that did not
    answer. ``reason``: the first error; None: all sites answered.
    """

    may_wait: bool
    silent: SilentSites = field(default_factory=SilentSites)
    reason: str | None = None
    _spans: dict[str, list[TickSpan]] = field(default_factory=dict)

    @property
    def spans(self) -> dict[str, list[TickSpan]]:
        """Insight uid -> the ticks."""
        return {uid: merge_spans(each) for uid, each in self._spans.items()}

    def add(self, spans: Mapping[str, list[TickSpan]], error: UnavailableError) -> None:
        """Add ticks that wait for a site; raises ``error`` if ticks may not wait."""
        if not self.may_wait:
            raise error
        self.reason = self.reason or error.message
        for uid, each in spans.items():
            self._spans.setdefault(uid, []).extend(each)
