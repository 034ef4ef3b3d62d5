"""The failures of operators of other packages, which cause missing values of insights."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.fragments import Fragment, Partial


@dataclass(frozen=True, slots=True)
class OperatorFailure:
    """A report on the answers of an insight's operators for several values.

    ``tick``: the last tick (ms) of these values. ``missing``: the number of values without an
    answer; 0 if the operators gave all answers. ``reason``: the reason of the first missing answer.
    """

    tick: int
    missing: int = 0
    reason: str = ""

    def __str__(self) -> str:
        values = "1 value is" if self.missing == 1 else f"{self.missing} values are"
        return f"{values} missing: {self.reason}"


ReportFailure = Callable[[str, OperatorFailure], None]
"""A function that receives the uid of an insight and the failure of the insight's operators."""


def ignore_failure(uid: str, failure: OperatorFailure) -> None:
    """Ignore the failure of an insight's operators."""


def failure_of(calls: Iterable[tuple[str, pa.Table, pa.Array | None]]) -> OperatorFailure | None:
    """Return one failure for all calls of an insight's operators; None: no operator was called.

    ``calls``: for each call, the operator's name, the rows (with ``tick``), and for each row the
    reason why the operator gave no answer (null: the operator answered).
    """
    failure: OperatorFailure | None = None
    for name, rows, problems in calls:
        if not rows.num_rows:
            continue
        tick = max(pc.max(rows["tick"]).as_py(), 0 if failure is None else failure.tick)
        missing, reason = (0, "") if failure is None else (failure.missing, failure.reason)
        reasons = [] if problems is None else problems.drop_null()
        if len(reasons):
            missing, reason = missing + len(reasons), reason or f"{name}: {reasons[0]}"
        failure = OperatorFailure(tick, missing, reason)
    return failure


def describe_failures(
    fragment: Fragment, failures: Mapping[str, OperatorFailure]
) -> dict[str, str]:
    """Return insight uid -> the text of its failure, for insights with missing values.

    ``failures``: insight uid -> its failure, of any fragments.
    """
    if isinstance(fragment, Partial):
        return {}
    uids = (insight.uid for insight in fragment.plan.insights)
    return {uid: str(failures[uid]) for uid in uids if uid in failures and failures[uid].missing}
