"""What results lack because operators of other packages gave no answer."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Trouble:
    """How many values an insight lacks as of a tick (ms), and why the first of them; 0 for none."""

    tick: int
    missing: int = 0
    reason: str = ""

    def __str__(self) -> str:
        values = "1 value is" if self.missing == 1 else f"{self.missing} values are"
        return f"{values} missing: {self.reason}"


Tell = Callable[[str, Trouble], None]
"""Takes what is the matter with an insight, by its uid."""


def unheard(uid: str, trouble: Trouble) -> None:
    """Tell nobody."""


def trouble_of(asked: Iterable[tuple[str, pa.Table, pa.Array | None]]) -> Trouble | None:
    """Return what the operators of an insight failed to answer.

    ``asked`` are their names, the rows (with ``tick``) that they were asked of, and for each, if
    any, why there is no answer. None if they were not asked.
    """
    found: Trouble | None = None
    for name, rows, problems in asked:
        if not rows.num_rows:
            continue
        tick = max(pc.max(rows["tick"]).as_py(), 0 if found is None else found.tick)
        missing, reason = (0, "") if found is None else (found.missing, found.reason)
        reasons = [] if problems is None else problems.drop_null()
        if len(reasons):
            missing, reason = missing + len(reasons), reason or f"{name}: {reasons[0]}"
        found = Trouble(tick, missing, reason)
    return found
