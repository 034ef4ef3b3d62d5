"""From panes to the results of insights: what an engine calls at the end of each micro-batch."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from analytics_worker.accumulating.stored import Account, states_for
from analytics_worker.composition import compose
from analytics_worker.results import as_results
from analytics_worker.troubles import Tell, Trouble, unheard
from analytics_worker.windowing.kept import KeptPanes
from analytics_worker.windowing.windows import (
    EVER,
    NEVER,
    PLACED,
    Panes,
    Shape,
    shapes_of,
    windows_of,
)
from mistbow.plan.nodes import Plan
from mistbow.streams.schemas import RESULT_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """A plan, and where it goes on.

    ``after`` gives for each window the time (ms) that its ticks must be later than: before it,
    windows would be partial. What accumulates goes on from the states of ``account``; without
    one, from nothing. ``tell`` is called in the engine's processes. ``kept`` is a folder, there
    already, for what windows still need, of a query that computes micro-batch by micro-batch.
    """

    plan: Plan
    after: Mapping[str, int]
    account: Account | None = None
    tell: Tell = unheard
    kept: Path | None = None

    def all_results(self, panes: pa.Table) -> pa.Table:
        """Return the results (``RESULT_ROWS``) of all windows that have one of these panes.

        ``panes``: some columns of ``PLACED``. For an insight that lacks answers there is a row
        besides, with neither a value nor a text, that says by ``missing`` why.
        """
        shapes = shapes_of(self.plan, self.after)
        lacking: dict[str, Trouble] = {}

        def note(uid: str, trouble: Trouble) -> None:
            self.tell(uid, trouble)
            if trouble.missing:
                lacking.setdefault(uid, trouble)

        hearing = replace(self, tell=note)
        found = hearing._results(Panes.of(_placed(panes)), shapes, NEVER, EVER)
        return pa.concat_tables([found, _unanswered(lacking)])

    def next_results(self, rows: pa.Table, batch: int) -> pa.Table:
        """Return the results (``RESULT_ROWS``) of the windows that end in a micro-batch.

        ``rows``: some columns of ``PLACED``.
        """
        assert self.kept is not None, "only what is kept can be gone on with"  # noqa: S101
        placed, shapes = _placed(rows), shapes_of(self.plan, self.after)
        is_pane = pc.is_valid(placed["route"])
        added, news = placed.filter(is_pane), placed.filter(pc.invert(is_pane))
        kept = KeptPanes(self.kept, batch)
        until = max(kept.closed, pc.max(news["due"]).as_py() or 0)
        found = RESULT_ROWS.empty_table()
        if until > kept.closed:
            panes = Panes.of(pa.concat_tables([kept.panes, added]).combine_chunks())
            found = self._results(panes, shapes, kept.closed, until)
        # What accumulates was stored first; now what is kept; then, by the engine, the results.
        kept.keep(added, shapes, until)
        return found

    def _results(self, panes: Panes, shapes: list[Shape], closed: int, until: int) -> pa.Table:
        parts = windows_of(panes, self.plan, shapes, closed, until)
        first = next(parts, None)
        if first is None:
            return RESULT_ROWS.empty_table()
        with states_for(self.account, self.plan, pc.min(first["tick"]).as_py()) as states:
            found = [
                as_results(compose(windows, self.plan, states, self.tell))
                for windows in chain([first], parts)
            ]
        return pa.concat_tables(found)


def _unanswered(lacking: Mapping[str, Trouble]) -> pa.Table:
    rows = [
        {"insight": uid, "key": "", "ts": each.tick, "missing": str(each)}
        | {"revision": 0, "computed_at": 0}
        for uid, each in lacking.items()
    ]
    return pa.Table.from_pylist(rows, RESULT_ROWS)


def _placed(panes: pa.Table) -> pa.Table:
    """Return panes as ``PLACED``; columns that none has are added here, at less cost."""
    columns = [
        panes[field.name].cast(field.type)
        if field.name in panes.column_names
        else pa.nulls(panes.num_rows, field.type)
        for field in PLACED
    ]
    return pa.table(columns, schema=PLACED)
