"""The computation of results from panes, which an engine calls in each micro-batch."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.nodes import Plan
from analytics.plan.point_aggregates import history_windows, ordered_windows
from analytics_worker.evaluate.composition import compose
from analytics_worker.evaluate.history.elements import PanePoints, PointHistory
from analytics_worker.evaluate.history.point_store import PointStore, StoredPane
from analytics_worker.evaluate.operator_failures import (
    OperatorFailure,
    ReportFailure,
    ignore_failure,
)
from analytics_worker.evaluate.results import as_results
from analytics_worker.evaluate.windows.retained_panes import RetainedPanes
from analytics_worker.evaluate.windows.windows import (
    EVER,
    NEVER,
    ROUTED_PANES,
    Panes,
    WindowShape,
    shapes_of,
    windows_of,
)
from analytics_worker.stateful.state_stream import StateAccess, states_for
from mistbow.streams.schemas import RESULT_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """The computation of a plan's results from panes.

    ``after``: window id -> the time (ms) after which the window's ticks begin; earlier windows
    would lack points. ``access``: the states from which accumulators continue; None: accumulators
    start without a state. ``report_failure`` receives the failures of operators, in the engine's
    processes. ``pane_folder``: an existing folder for the panes that a query retains between
    micro-batches; None: the computation is a batch, which retains no panes.
    """

    plan: Plan
    after: Mapping[str, int]
    access: StateAccess | None = None
    report_failure: ReportFailure = ignore_failure
    pane_folder: Path | None = None

    def all_results(self, panes: pa.Table) -> pa.Table:
        """Return the results (``RESULT_ROWS``) of the windows that contain any of ``panes``.

        ``panes``: a table with some columns of ``ROUTED_PANES``. If an operator of another package
        gave no answer, the returned table has an additional row for the insight that calls the
        operator: the row has neither a value nor a text, and ``missing`` contains the reason.
        """
        shapes = shapes_of(self.plan, self.after, self._with_history)
        failures: dict[str, OperatorFailure] = {}

        def collect(uid: str, failure: OperatorFailure) -> None:
            self.report_failure(uid, failure)
            if failure.missing:
                failures.setdefault(uid, failure)

        collecting = replace(self, report_failure=collect)
        all_panes = Panes.of(_with_all_columns(panes))
        history = PanePoints(all_panes, list(self._stored_panes))
        results = collecting._results(all_panes, shapes, NEVER, EVER, history)
        return pa.concat_tables([results, _failure_rows(failures)])

    def next_results(self, rows: pa.Table, batch: int) -> pa.Table:
        """Return the results (``RESULT_ROWS``) of the windows that close in a micro-batch.

        ``rows``: new panes and rows that close windows, with some columns of ``ROUTED_PANES``.
        ``batch``: the number of the micro-batch. Panes that later windows need are stored in
        ``pane_folder``.
        """
        assert self.pane_folder is not None, "a streaming query needs a folder"  # noqa: S101
        rows = _with_all_columns(rows)
        shapes = shapes_of(self.plan, self.after, self._with_history)
        is_pane = pc.is_valid(rows["route"])
        added, ends = rows.filter(is_pane), rows.filter(pc.invert(is_pane))
        retained = RetainedPanes(self.pane_folder, batch)
        until = max(retained.closed, pc.max(ends["due"]).as_py() or 0)
        results = RESULT_ROWS.empty_table()
        if until > retained.closed:
            if self.access is not None:
                # The states up to here are final then, also while another query writes them.
                self.access.lease.wait(until)
            panes = Panes.of(pa.concat_tables([retained.panes, added]).combine_chunks())
            with self._history(panes, retained, until, batch) as history:
                results = self._results(panes, shapes, retained.closed, until, history)
        # Stored in this order: states and points above, panes here, results by the engine.
        retained.add(added, shapes, until)
        return results

    @property
    def _with_history(self) -> frozenset[str]:
        return history_windows(self.plan)

    @property
    def _stored_panes(self) -> dict[int, StoredPane]:
        """Route -> the pane, for the panes of windows that read a history."""
        routes = {pane.id: route for route, pane in enumerate(self.plan.panes)}
        ordered, panes = ordered_windows(self.plan), dict[int, StoredPane]()
        for window in self.plan.windows:
            if window.id in self._with_history:
                route = routes[window.pane]
                other = panes.get(route, StoredPane(0, is_ordered=False))
                panes[route] = StoredPane(
                    max(other.lookback, window.lookback_ms),
                    other.is_ordered or window.id in ordered,
                )
        return panes

    @contextmanager
    def _history(
        self, panes: Panes, retained: RetainedPanes, until: int, batch: int
    ) -> Iterator[PointHistory]:
        """Open the history of points up to ``until`` (ms), with the points of ``panes``.

        ``panes``: the retained panes and the new panes, in this order. Points that an earlier
        micro-batch had are not added again.
        """
        stored = self._stored_panes
        if self.pane_folder is None or not stored:
            yield PanePoints(panes, [])
            return
        is_new = np.arange(len(panes.due)) >= retained.panes.num_rows
        added = (panes.due <= until) & (is_new | (panes.due > retained.closed))
        with PointStore.opened(self.pane_folder, batch, retained.closed, stored) as store:
            new = Panes.of(panes.table.filter(pa.array(added)))
            store.new = PanePoints(new, list(stored), store.keys)
            yield store
            store.add(until)

    def _results(
        self,
        panes: Panes,
        shapes: list[WindowShape],
        closed: int,
        until: int,
        history: PointHistory,
    ) -> pa.Table:
        tables = windows_of(panes, self.plan, shapes, closed, until)
        first = next(tables, None)
        if first is None:
            return RESULT_ROWS.empty_table()
        with states_for(self.access, self.plan, pc.min(first["tick"]).as_py()) as states:
            results = [
                as_results(compose(windows, self.plan, states, self.report_failure, history))
                for windows in chain([first], tables)
            ]
        return pa.concat_tables(results)


def _failure_rows(failures: Mapping[str, OperatorFailure]) -> pa.Table:
    rows = [
        {"insight": uid, "key": "", "ts": failure.tick, "missing": str(failure)}
        | {"revision": 0, "computed_at": 0}
        for uid, failure in failures.items()
    ]
    return pa.Table.from_pylist(rows, RESULT_ROWS)


def _with_all_columns(panes: pa.Table) -> pa.Table:
    """Return panes with all columns of ``ROUTED_PANES``; a column that ``panes`` lacks becomes
    null.

    Spark could add the missing columns, but at a higher cost.
    """
    columns = [
        panes[field.name].cast(field.type)
        if field.name in panes.column_names
        else pa.nulls(panes.num_rows, field.type)
        for field in ROUTED_PANES
    ]
    return pa.table(columns, schema=ROUTED_PANES)
