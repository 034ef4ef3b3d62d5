"""Which sites each tick of a group waits for, reads and names: the rule for results, corrections
and joins.

The gaps of a group are the decisions about its sites, in the order of the decisions. The rule has
no other input, and no function here reads or stores anything.

- Live: a tick waits for, and reads, the sources that no gap contains. It names as missing the other
  sources, except up to ``named_after`` of their gaps (``missing``, ``named``).
- Corrections: ``LastGaps`` contains one gap for each site that a tick may lack. A tick reads all
  sources but those in ``absent``, and names the sites in ``named``: those that the result lacks,
  and that were sources when it was computed first. A tick with a site in ``removed`` is not
  corrected, since a result that includes points of a removed site would lose them.
- Joins: once a site has joined, the ticks of ``joined_ticks`` are corrected. These are all ticks
  whose results may lack the site, or name it.
- Removals: the gap of ``removal`` or of ``gap_of_former_source`` replaces all earlier gaps of a
  site that is no longer a source. It is complete: what happened before does not matter any more.

A result is *uncertain* if it may include the site or lack it: a correction may have begun, or a
query may have written it that has not taken over. The rule errs to one side. While the site is
removed, an uncertain result is corrected only if it names the site (``lacking``); while the site is
a source again, a correction reads the site; and once the site has joined, the result is corrected.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

NEVER = 2**62
"""A time (ms) that no tick reaches."""

_MAX_SPANS = 100
"""The greatest number of uncertain spans of one gap, since decisions are limited."""

Span = tuple[int, int]
"""The ticks t with ``after < t <= until`` (ms), as (after, until)."""


@dataclass(frozen=True, slots=True)
class SiteGap:
    """The ticks t that are computed without a site: ``after < t <= until`` (ms).

    ``until`` is None while the site is missing. ``named_after``: as in ``Left``. ``joined_at``: the
    frontier (ms) of the site when it was decided that the site joins; None: it is not recorded.
    ``is_removed``: whether the gap has ended because the site is no longer a source; results up to
    ``after`` then include the site, and later ones lack it. ``uncertain``: the ticks, inside or
    outside of the gap, whose results may include the site or lack it. ``named``: further ticks
    whose results name the site as missing.
    """

    site: str
    after: int
    until: int | None
    named_after: int | None = None
    joined_at: int | None = None
    is_removed: bool = False
    uncertain: tuple[Span, ...] = ()
    named: tuple[Span, ...] = ()

    def contains(self, tick: int) -> bool:
        """Return whether a tick (ms) is computed without the site."""
        return self.after < tick and (self.until is None or tick <= self.until)

    def is_uncertain(self, tick: int) -> bool:
        """Return whether the result at a tick (ms) may include the site, or lack it."""
        return _contain(self.uncertain, tick)

    def is_named(self, tick: int) -> bool:
        """Return whether the result at a tick (ms) names the site as missing.

        The correction after a new site has joined may begin at ``named_after``, so no earlier
        result may name the site: the name would remain for ever.
        """
        is_after = self.named_after is None or tick > self.named_after
        return (is_after and self.contains(tick)) or _contain(self.named, tick)

    @property
    def named_ticks(self) -> tuple[Span, ...]:
        """The ticks (ms) whose results name the site as missing."""
        first = self.after if self.named_after is None else max(self.after, self.named_after)
        return _union([*self.named, (first, NEVER if self.until is None else self.until)])

    @property
    def is_of_new_site(self) -> bool:
        """Whether the site had no earlier result, so that its first point begins the gap."""
        return self.after == 0 and self.named_after is not None


@dataclass(frozen=True, slots=True)
class LastGaps:
    """The gaps that decide which sites a corrected tick reads and names: one gap for each site.

    A site has a gap if it is missing, or if it is no longer a source. All other gaps have ended
    because their site joined again, so their ticks are corrected, or are to be corrected.
    """

    gaps: tuple[SiteGap, ...] = ()

    @property
    def bounds(self) -> Iterator[int]:
        """Yield the times (ms) after which another set of sites is absent, named or removed."""
        for gap in self.gaps:
            yield gap.after
            if gap.named_after is not None:
                yield gap.named_after
            if gap.until is not None:
                yield gap.until
            for span in (*gap.uncertain, *gap.named):
                yield from span

    def absent(self, tick: int) -> frozenset[str]:
        """Return the names of the sites that a result at a tick (ms) lacks, and is to lack.

        Corrections do not wait for these sites, since a site may never return.
        """
        return frozenset(
            gap.site for gap in self.gaps if gap.contains(tick) and not gap.is_uncertain(tick)
        )

    def named(self, tick: int) -> frozenset[str]:
        """Return the names of the absent sites that a result at a tick (ms) names as missing."""
        return frozenset(
            gap.site for gap in self.gaps if gap.is_named(tick) and not gap.is_uncertain(tick)
        )

    def removed(self, tick: int) -> frozenset[str]:
        """Return the names of the removed sites whose rows a result at a tick (ms) may include."""
        return frozenset(
            gap.site
            for gap in self.gaps
            if gap.is_removed and (tick <= gap.after or gap.is_uncertain(tick))
        )

    def uncertain(self, tick: int) -> frozenset[str]:
        """Return those of the removed sites which a result at a tick (ms) may also lack."""
        return frozenset(gap.site for gap in self.gaps if gap.is_removed and gap.is_uncertain(tick))

    def lacking(self, sites: Collection[str], tick: int) -> "LastGaps":
        """Return the gaps for a tick (ms) whose stored results name, hence lack, removed sites."""
        others = (gap for gap in self.gaps if gap.site not in sites)
        named_gaps = (SiteGap(site, tick - 1, NEVER, is_removed=True) for site in sites)
        return LastGaps((*others, *named_gaps))

    @property
    def provisional(self) -> frozenset[str]:
        """The names of the removed sites that are read by a query that may still write results."""
        return frozenset(gap.site for gap in self.gaps if gap.is_removed and is_provisional(gap))

    def removed_since(self, tick: int) -> frozenset[str]:
        """Return the names of the removed sites whose rows results at or after a tick (ms) may
        include.
        """
        return frozenset(
            gap.site for gap in self.gaps if gap.is_removed and tick <= _included_until(gap)
        )

    @property
    def removed_until(self) -> int:
        """The time (ms) up to which results may include rows of removed sites; -1: none do."""
        return max((_included_until(gap) for gap in self.gaps if gap.is_removed), default=-1)


def last_gaps(gaps: Iterable[SiteGap], sources: Collection[str]) -> LastGaps:
    """Return the gaps that decide about corrections of a fragment that reads ``sources``.

    Another site can have an open gap too: a query that reads it has begun, but may never take over.
    No result of the fragment names such a site.
    """
    of_sites: dict[str, list[SiteGap]] = {}
    for gap in gaps:
        of_sites.setdefault(gap.site, []).append(gap)
    found = (
        each[-1] if site in sources else gap_of_former_source(each)
        for site, each in of_sites.items()
    )
    return LastGaps(tuple(gap for gap in found if gap.until is None or gap.site not in sources))


def missing(gaps: Iterable[SiteGap], tick: int) -> tuple[str, ...]:
    """Return the names of the sites that are missing at a tick (ms), sorted."""
    return tuple(sorted({gap.site for gap in gaps if gap.contains(tick)}))


def named(gaps: Iterable[SiteGap], tick: int) -> tuple[str, ...]:
    """Return the names of the sites that the first result at a tick (ms) names as missing,
    sorted.
    """
    return tuple(sorted({gap.site for gap in gaps if gap.is_named(tick)}))


def joined_ticks(gap: SiteGap, until: int, first_time: int | None = None) -> tuple[Span, ...]:
    """Return the ticks to correct once the site of a gap has joined.

    ``until``: the time (ms) at which the site joins. ``first_time``: the time of the first point of
    a new site; None: it is not known, or the site is not new.
    """
    after = gap.after
    if gap.is_of_new_site and first_time is not None:
        after = min(first_time - 1, gap.named_after or 0)
    return _union([(after, until), *_clip((*gap.uncertain, *gap.named), 0, until)])


def removal(
    gaps: Sequence[SiteGap], site: str, until: int, is_corrected: Callable[[SiteGap], bool]
) -> SiteGap:
    """Return the gap of the removal of a source.

    ``gaps``: the gaps of the source. ``until``: the time (ms) up to which queries that read the
    site have written results. They may still write, so later results are uncertain.
    ``is_corrected``: whether the ticks of a gap are corrected for certain, after the site has
    joined.
    """
    last = gaps[-1] if gaps else None
    uncorrected = [
        span
        for gap in gaps
        if gap.until is not None and not gap.is_removed and not is_corrected(gap)
        for span in joined_ticks(gap, gap.until)
    ]
    after, names = until, tuple[Span, ...]()
    uncertain = [(until, NEVER)]
    if last is not None and (last.until is None or last.until >= until):
        # The first results lack the site, and name it.
        after, names = last.after, _clip(last.named_ticks, 0, until)
        uncertain += last.uncertain
        if last.until is not None:
            # Since the decision that the site joins at a later tick, corrections read the site.
            uncertain.append((after, until))
    uncertain += _clip(uncorrected, 0, after)
    return removed_gap(site, after, until, uncertain, names)


def gap_of_former_source(gaps: Sequence[SiteGap]) -> SiteGap:
    """Return the gap of a site that is no source; ``gaps``: the gaps of the site.

    The last removal counts. Later gaps are those of queries that did not take over, or that have
    run on for a moment after the removal was recorded.
    """
    last = gaps[-1]
    if last.is_removed:
        return last
    former, later = _since_removal(gaps)
    after, names = former.after, former.named_ticks
    end = max(former.until or 0, after)
    spans = [*former.uncertain, *_uncertain_since_removal(gaps)]
    if len(later) == 1 and last.until is None and last.named_after is None:
        # The site left a query that was about to stop: a query that begins with a site names the
        # site only after a later time. A former version recorded no end of this query's results.
        after, names = last.after, ()
        spans.append((after, NEVER))
    return removed_gap(last.site, after, end, spans, names)


def uncertain_of_new_source(
    gaps: Sequence[SiteGap], end: int, written: Iterable[Span] = ()
) -> tuple[Span, ...]:
    """Return the ticks whose results may include a site that is to be a source.

    ``gaps``: the earlier gaps of the site. ``end``: a time (ms) that is not before any of these
    results. The stored frontier can be before the last result of the query that read the site.
    ``written``: further ticks that a query with the site may have written.
    """
    # The clock of this worker may be behind the clock of the worker that recorded the removal.
    recorded = (until for gap in gaps for _, until in gap.uncertain if until < NEVER)
    end = max([end, *recorded])
    was_removed = any(gap.is_removed for gap in gaps)
    former = _since_removal(gaps)[0].uncertain if was_removed else ()
    return _limit(_clip((*former, *_uncertain_since_removal(gaps), *written), 0, end))


def _uncertain_since_removal(gaps: Sequence[SiteGap]) -> Iterator[Span]:
    """Yield the ticks that include a site only if a query has written them that did not take over.

    ``gaps``: the gaps of a site that is no source. The site joined while such a query ran.
    """
    later = _since_removal(gaps)[1] if gaps else ()
    following = [*(gap.after for gap in later[1:]), NEVER]
    for gap, after in zip(later, following, strict=False):
        if gap.until is not None:
            yield gap.until, after


def gap_of_returned_source(gaps: Sequence[SiteGap], gap: SiteGap) -> SiteGap:
    """Return the open gap of a site that is a source again, with what its removal has recorded.

    ``gaps``: the earlier gaps of the site. ``gap``: its new gap, with all uncertain ticks. Rows of
    a worker of a former version have none.
    """
    if gap.named_after is None or not any(each.is_removed for each in gaps):
        return gap
    former, _ = _since_removal(gaps)
    uncertain = (*gap.uncertain, *_clip(former.uncertain, 0, gap.named_after))
    names = _clip(former.named_ticks, gap.after, gap.named_after)
    return replace(gap, uncertain=_union(uncertain), named=names)


def removed_gap(
    site: str, after: int, until: int, uncertain: Iterable[Span], names: Iterable[Span]
) -> SiteGap:
    """Return the gap of a removal; ``names``: all ticks whose results name the site."""
    until, spans = max(until, after), _limit(_union(uncertain))
    return SiteGap(site, after, until, until, is_removed=True, uncertain=spans, named=_union(names))


def is_provisional(gap: SiteGap) -> bool:
    """Return whether the end of the uncertain results of a removed site is not known yet."""
    return any(until >= NEVER for _, until in gap.uncertain)


def with_certain_end(gap: SiteGap, end: int) -> SiteGap:
    """Return the gap of a removed site, after the last query that reads the site has stopped.

    ``end``: the time (ms) of the last stored result.
    """
    return replace(gap, uncertain=_clip(gap.uncertain, 0, end))


def _since_removal(gaps: Sequence[SiteGap]) -> tuple[SiteGap, Sequence[SiteGap]]:
    """Return the gap of the last removal of a site, and the later gaps of the site.

    Without a removal, a site has no result, unless it was a source from the beginning on.
    """
    for number in reversed(range(len(gaps))):
        if gaps[number].is_removed:
            return gaps[number], gaps[number + 1 :]
    uncertain = () if gaps[0].is_of_new_site else ((0, NEVER),)
    return SiteGap(gaps[0].site, 0, 0, is_removed=True, uncertain=uncertain), gaps


def _included_until(gap: SiteGap) -> int:
    return max((gap.after, *(until for _, until in gap.uncertain)))


def _contain(spans: Iterable[Span], tick: int) -> bool:
    return any(after < tick <= until for after, until in spans)


def _clip(spans: Iterable[Span], after: int, until: int) -> tuple[Span, ...]:
    """Return the ticks of spans in (after, until]."""
    return _union((max(span[0], after), min(span[1], until)) for span in spans)


def _union(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the ticks of spans as separate spans, in the order of time."""
    merged: list[Span] = []
    for after, until in sorted(span for span in spans if span[0] < span[1]):
        if merged and after <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], until)
        else:
            merged.append((after, until))
    return tuple(merged)


def _limit(spans: tuple[Span, ...]) -> tuple[Span, ...]:
    """Return at most ``_MAX_SPANS`` spans; the ticks between the first ones become uncertain."""
    joined = len(spans) - _MAX_SPANS + 1
    if joined <= 1:
        return spans
    return ((spans[0][0], spans[joined - 1][1]), *spans[joined:])
