"""Which rows of which results streams belong to a deployment, and how users see them."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from analytics_enabler.deployments.model import Deployment, Generation
from analytics_enabler.groups import Group
from mistbow.auth.callers import Caller
from mistbow.errors import NotFoundError

MOST_MATCHED = 100
"""More insights than this are not named in the request: its line would grow too long."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Generations of insights, by uid."""

    generations: Mapping[str, Generation]

    @property
    def match(self) -> dict[str, list[str]]:
        """What the storage agent may filter by."""
        if len(self.generations) > MOST_MATCHED:
            return {}
        return {"insight": list(self.generations)}

    def readable(self, caller: Caller) -> "Selection":
        """Return the part that a caller carries the signatures for.

        Raises ``ForbiddenError`` where it lacks that of an insight in force, or where nothing is
        left; what ended before, and was signed then, is left out.
        """
        readable = {
            uid: generation
            for uid, generation in self.generations.items()
            if caller.carries(generation.definition.options.signature)
        }
        for generation in self.generations.values():
            if generation.until is None or not readable:
                caller.check_signature(
                    f"the insight {generation.name}", generation.definition.options.signature
                )
        return Selection(readable)

    @property
    def since(self) -> int:
        """The time that all rows are after, ms since the epoch."""
        return min((g.since for g in self.generations.values()), default=0)

    @property
    def every_ms(self) -> int:
        """The longest interval between two ticks."""
        return max((g.definition.every_ms for g in self.generations.values()), default=1)

    @property
    def groups(self) -> dict[Group, "Selection"]:
        """The groups in whose streams the rows are, each with its part of the selection."""
        parts: dict[Group, dict[str, Generation]] = defaultdict(dict)
        for uid, generation in self.generations.items():
            parts[generation.group][uid] = generation
        return {group: Selection(parts[group]) for group in sorted(parts, key=lambda g: g.id)}

    def visible(self, rows: pa.Table | pa.RecordBatch) -> Iterator[dict[str, Any]]:
        """Yield the rows that belong here, as they are stored, with ``uid`` for ``insight``.

        A generation that has ended owns the ticks up to its end, and no later ones.
        """
        for row in rows.to_pylist():
            generation = self.generations.get(row["insight"])
            if generation is None or row["ts"] <= generation.since:
                continue
            if generation.until is None or row["ts"] <= generation.until:
                yield row

    def shown(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row in the form of ``mistbow.insights.Result``."""
        name = self.generations[row["insight"]].name
        key = json.loads(row["key"]) if row["key"] else {}
        missing = row.get("missing")
        told = missing.split(",") if missing else []
        return {**row, "insight": name, "key": key, "missing": told}


def select(deployment: Deployment, insight: str | None, caller: Caller) -> Selection:
    """Return all generations of a deployment, or of one insight of it, that a caller may read.

    Raises ``NotFoundError`` for an insight that the deployment never had, and ``ForbiddenError``
    where the caller lacks a signature.
    """
    chosen = {g.uid: g for g in deployment.generations if insight in (None, g.name)}
    if not chosen and insight is not None:
        names = ", ".join(generation.name for generation in deployment.live)
        raise NotFoundError(
            f"{deployment.id} has no insight {insight}", hint=f"It has {names or 'none'}."
        )
    return Selection(chosen).readable(caller)
