"""The selection of a deployment's rows in streams of results, and their form in the API."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from analytics_enabler.deployments.model import Deployment, Generation
from analytics_enabler.groups import Group
from mistbow.auth.callers import Caller
from mistbow.errors import NotFoundError
from mistbow.streams.results import result_fields

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

_MAX_INT64 = 2**63 - 1

MAX_MATCHED = 100
"""The maximum number of uids in the URL of a request; more uids would make the URL too long."""


@dataclass(frozen=True, slots=True)
class ResultSelection:
    """Selected generations of insights; ``generations``: uid -> generation."""

    generations: Mapping[str, Generation]

    @property
    def match(self) -> dict[str, list[str]]:
        """The filter that the storage agent applies to rows: column -> permitted values.

        The filter is empty if too many generations are selected; then the agent sends all rows.
        """
        if len(self.generations) > MAX_MATCHED:
            return {}
        return {"insight": list(self.generations)}

    def readable(self, caller: Caller) -> "ResultSelection":
        """Return the selection of the generations that the caller may read.

        A caller may read all insights without the option ``SIGNATURE``, and the insights whose
        signature the caller's token contains. An ended generation that the caller may not read is
        omitted. Raises ``ForbiddenError`` if the caller may not read a generation in force, or may
        read no generation.
        """
        readable = {
            uid: generation
            for uid, generation in self.generations.items()
            if caller.has_signature(generation.definition.options.signature)
        }
        for generation in self.generations.values():
            if generation.until is None or generation.paused or not readable:
                caller.check_signature(
                    f"the insight {generation.name}", generation.definition.options.signature
                )
        return ResultSelection(readable)

    @property
    def since(self) -> int:
        """The earliest ``since`` (ms since the epoch) of the generations: all results are later."""
        return min((g.since for g in self.generations.values()), default=0)

    @property
    def every_ms(self) -> int:
        """The longest interval (ms) between ticks among the generations."""
        return max((g.definition.every_ms for g in self.generations.values()), default=1)

    @property
    def groups(self) -> dict[Group, "ResultSelection"]:
        """Group -> the selection of the generations of this group, in the order of group ids."""
        parts: dict[Group, dict[str, Generation]] = defaultdict(dict)
        for uid, generation in self.generations.items():
            parts[generation.group][uid] = generation
        return {group: ResultSelection(parts[group]) for group in sorted(parts, key=lambda g: g.id)}

    def visible(self, rows: Rows) -> Rows:
        """Return the stored rows of the selected generations; the column ``insight`` is the uid.

        A row is omitted if its generation was not in force at the time of the row.
        """
        generations = self.generations.values()
        number = pc.index_in(rows["insight"], value_set=pa.array(self.generations, pa.string()))
        since = pa.array([each.since for each in generations], pa.int64())
        until = pa.array(
            [_MAX_INT64 if each.until is None else each.until for each in generations], pa.int64()
        )
        is_after = pc.greater(rows["ts"], pc.take(since, number))
        # Null, and so not selected, for other insights.
        return rows.filter(pc.and_(is_after, pc.less_equal(rows["ts"], pc.take(until, number))))

    def shown(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a stored row in the form of ``analytics.insight_models.Result``."""
        return result_fields(row) | {"insight": self.generations[row["insight"]].name}


def select(deployment: Deployment, insight: str | None, caller: Caller) -> ResultSelection:
    """Return those generations of a deployment that a caller may read.

    ``insight``: the only insight whose generations are selected; None: all insights. Raises
    ``NotFoundError`` for an unknown insight, and ``ForbiddenError`` as ``readable`` does.
    """
    chosen = {g.uid: g for g in deployment.generations if insight in (None, g.name)}
    if not chosen and insight is not None:
        names = ", ".join(generation.name for generation in deployment.live)
        raise NotFoundError(
            f"the deployment {deployment.id} has no insight {insight}",
            hint=f"Its insights: {names or 'none'}.",
        )
    return ResultSelection(chosen).readable(caller)
