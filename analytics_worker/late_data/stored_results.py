"""Selects stored and computed results by their ticks and by the sites that they name."""

from collections.abc import Collection, Iterator, Mapping, Set
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from analytics_worker.late_data.tick_spans import TickSpan
from mistbow.streams.schemas import RESULT_ROWS


def spans_that_name(
    stored: pa.Table, spans: Mapping[str, TickSpan], sites: Set[str]
) -> dict[str, TickSpan]:
    """Return the spans of those insights whose results all name ``sites`` as missing.

    ``stored``: the current results. Insights without a result in their span are omitted.
    """
    named = {}
    for uid, span in spans.items():
        missing = within(stored, {uid: span})["missing"].unique().to_pylist()
        if missing and all(_are_named(sites, names) for names in missing):
            named[uid] = span
    return named


def naming_changes(stored: pa.Table, sites: Set[str]) -> Iterator[int]:
    """Yield the times (ms) after which results begin or cease to name ``sites`` as missing."""
    named: dict[int, bool] = {}
    for tick, names in zip(stored["ts"].to_pylist(), stored["missing"].to_pylist(), strict=True):
        named[tick] = named.get(tick, True) and _are_named(sites, names)
    for (_, before), (tick, after) in pairwise(sorted(named.items())):
        if before != after:
            yield tick - 1


def _are_named(sites: Set[str], missing: str | None) -> bool:
    return sites <= set((missing or "").split(","))


def with_missing_sites(computed: pa.Table, sites: Collection[str]) -> pa.Table:
    """Return results that name ``sites`` as missing."""
    missing = pa.array([",".join(sorted(sites)) or None] * computed.num_rows, pa.string())
    return computed.set_column(computed.column_names.index("missing"), "missing", missing)


def within(rows: pa.Table, spans: Mapping[str, TickSpan]) -> pa.Table:
    """Return the results of insights at the ticks of ``spans``: insight uid -> span."""
    parts = [RESULT_ROWS.empty_table()]
    for uid, span in spans.items():
        own = pc.and_(
            pc.equal(rows["insight"], uid),
            pc.and_(
                pc.greater_equal(rows["ts"], span.first),
                pc.less_equal(rows["ts"], span.last),
            ),
        )
        parts.append(rows.filter(own).cast(RESULT_ROWS))
    return pa.concat_tables(parts)


def split_unanswered(computed: pa.Table) -> tuple[pa.Table, dict[str, str]]:
    """Return the rows with results, and a dict: insight uid -> why an operator gave no answer.

    If an operator gave no answer for an insight, ``computed`` has a row for the insight with
    neither a value nor a text, whose ``missing`` contains the reason. The caller does not correct
    the insights in the dict, so their stored results are not withdrawn.
    """
    has_result = pc.or_(pc.is_valid(computed["value"]), pc.is_valid(computed["text"]))
    rest = computed.filter(pc.invert(has_result))
    reasons = zip(rest["insight"].to_pylist(), rest["missing"].to_pylist(), strict=True)
    return computed.filter(has_result), dict(reasons)
