"""Which insights read this site's points, and where their workers are."""

from collections.abc import Iterator, Sequence

import msgspec

from mistbow.clock import Clock
from storage_agent.fabric.member import Member
from storage_agent.replication.filters import SeriesFilter
from storage_agent.replication.view import Insight

_KEY = "insight/"


class _Reader(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fragment that has points held: the site that asks, until when (ms), and of which metrics.

    ``metrics``: none is all.
    """

    site: str
    until: int
    metrics: tuple[str, ...] = ()


_READER = msgspec.json.Decoder(_Reader)


class Insights:
    """Follows who has points held, and tells it in this site's metadata: so it is known again."""

    def __init__(self, member: Member, clock: Clock) -> None:
        self._member = member
        self._clock = clock

    def note(self, holder: str, site: str, for_ms: int, metrics: Sequence[str]) -> None:
        """Take note that a fragment which runs at a site reads these metrics, for so long."""
        until = self._clock() + for_ms
        reader = _Reader(site, until, tuple(sorted(set(metrics))))
        self._member.tell(_KEY + holder, reader)

    def running(self) -> Iterator[Insight]:
        """Yield what reads points now, and forget what has not asked again."""
        now = self._clock()
        for key, event in list(self._member.told_by(self._member.site).items()):
            if not key.startswith(_KEY):
                continue
            reader = _READER.decode(event)
            if reader.until < now:
                self._member.tell(key, None)
            else:
                wanted = SeriesFilter(metric=reader.metrics)
                yield Insight(key.removeprefix(_KEY), reader.site, wanted)
