"""``INSIGHT name``: what another insight means, as a part of the one that refers to it.

The part is the other's plan as it is at the time of the check. So what is deployed stays computable
by itself, whatever becomes of the other, and the optimizer lets both share what they compute.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from analytics_enabler.limits import MOST_NODES_OF_REFERENCES
from analytics_enabler.semantics.aggregates import WITHOUT_WINDOW, current_ms
from analytics_enabler.semantics.cycles import ordered
from analytics_enabler.semantics.definition import Definition
from analytics_enabler.semantics.expansion import Meant
from analytics_enabler.semantics.findings import Findings, beginning, did_you_mean
from analytics_enabler.semantics.options import is_signed
from analytics_enabler.semantics.pace import ticks_of
from analytics_enabler.semantics.trees import references
from grammar import ast
from grammar.units import in_words
from mistbow.plan.expressions import (
    ACCUMULATING,
    Aggregate,
    Expression,
    Filtered,
    Reduction,
    children,
    rewrite,
)
from mistbow.plan.expressions import walk as walk_plan
from mistbow.plan.feeds import Feed
from mistbow.plan.sampling import ByLot
from mistbow.plan.ticks import Ticks

Deployed = Mapping[str, Sequence[Definition]]
"""The insights that run, by name; several deployments may have one of the same name."""

MOST_NODES = 10_000
"""Nodes that the insights which one refers to may have together."""

MOST_DEPTH = 100
"""Levels of an insight that is referred to, or refers to others: whatever reads it recurses."""


@dataclass(slots=True)
class References:
    """The insights that those of one text may refer to.

    ``deployed`` is None where what runs is not known. Those of the text are added one by one; None
    for one that means nothing, what is told there.
    """

    findings: Findings
    deployed: Deployed | None
    _found: dict[str, Definition | None] = field(default_factory=dict)
    _extents: dict[str, tuple[int, int]] = field(default_factory=dict)
    _in_all: int = 0

    def in_order(self, insights: Iterable[Meant]) -> Iterator[tuple[ast.Insight, ast.Insight]]:
        """Yield what a text's insights are, written and meant, each behind those it refers to.

        Those that refer to themselves are left out, and so is who refers to them.
        """
        by_name: dict[str, list[tuple[ast.Insight, ast.Insight]]] = {}
        for each in insights:
            if each.plain is not None:
                by_name.setdefault(each.plain.name, []).append((each.written, each.plain))
        uses = {
            name: [n.name for _, plain in same for n in references(plain) if n.name in by_name]
            for name, same in by_name.items()
        }
        order, cycles = ordered(uses)
        for cycle in cycles:
            first = by_name[cycle[0]][0][0]
            self.findings.error(
                beginning(first.span, len(first.name)),
                f"`{first.name}` refers to itself: {' → '.join(cycle)}",
                "Leave one of these references out.",
            )
        for name in order:
            yield from by_name[name]

    def add(self, name: str, definition: Definition | None) -> None:
        """Let the insights that follow refer to this one."""
        self._found.setdefault(name, definition)

    def look_up(self, insight: ast.Insight) -> bool:
        """Return whether all that an insight refers to is there and fits, and say what does not."""
        found = list(references(insight))
        # Not a generator: all of them are looked at.
        fits = [self._fits(node, insight) for node in found]
        if not all(fits):
            return False
        size = sum(self._extent(node.name)[0] for node in found)
        if size > MOST_NODES:
            self._refuse_size(insight)
            return False
        self._in_all += size
        if self._in_all > MOST_NODES_OF_REFERENCES:
            self.findings.error(
                beginning(insight.span, len(insight.name)),
                f"what this text refers to is over {MOST_NODES_OF_REFERENCES:,} parts",
                "Refer to smaller insights, or submit these in several texts.",
            )
            return False
        return True

    def check_depth(self, insight: ast.Insight, definition: Definition) -> bool:
        """Return whether an insight is no deeper by what it refers to than it may be."""
        if next(references(insight), None) is None or _extent(definition)[1] <= MOST_DEPTH:
            return True
        self._refuse_size(insight)
        return False

    def size(self, node: ast.InsightReference) -> int:
        """Return how many nodes an insight has that was looked up."""
        return self._extent(node.name)[0]

    def keys(self, node: ast.InsightReference) -> tuple[str, ...]:
        """Return the attributes of the keys of an insight that was looked up."""
        return self._definition(node).by

    def feed(self, node: ast.InsightReference) -> Feed | None:
        """Return where the metrics of an insight that was looked up are from, if not storage."""
        return self._definition(node).feed

    def meaning(self, node: ast.InsightReference, ticks: Ticks, each_point: bool) -> Expression:
        """Return the values of an insight that was looked up, at the ticks of another one.

        With ``each_point`` the other one has its values at points, and tells them at these ticks.
        """
        definition = self._definition(node)
        value = definition.expression
        if definition.filter is not None:
            value = Filtered(value, definition.filter)
        anew = each_point or definition.each_point
        return rewrite(value, lambda part: _when(part, ticks, each_point, anew))

    def lengths(self, insight: ast.Insight) -> Iterator[int]:
        """Yield how long, in ms, the windows and offsets are of all that an insight refers to.

        What is current, or accumulates, has no length of its own at points.
        """
        for node in references(insight):
            for part in _parts(self._definition(node)):
                if isinstance(part, Aggregate) and part.function not in WITHOUT_WINDOW:
                    yield from filter(None, (part.size_ms, part.offset_ms))

    def _definition(self, node: ast.InsightReference) -> Definition:
        definition = self._found[node.name]
        if definition is None:
            raise AssertionError(node)
        return definition

    def _fits(self, node: ast.InsightReference, insight: ast.Insight) -> bool:
        if node.name not in self._found:
            self._found[node.name] = self._of_deployed(node)
        definition = self._found[node.name]
        if definition is None:
            return False
        if definition.counted is not None:
            self.findings.error(
                node.span,
                f"`{node.name}` has values at every {definition.counted.every} points only, seldom "
                "when one is needed here",
                f"Refer to one like it without that, or give `{node.name}` an interval.",
            )
            return False
        if not self._meet(node, insight, definition):
            return False
        signature = definition.options.signature
        if signature is not None and not is_signed(insight, signature):
            self.findings.error(
                node.span,
                f"`{node.name}` is signed with `{signature}`, `{insight.name}` is not",
                f"Add `WITH SIGNATURE '{signature}'`: it would tell the same to others.",
            )
            return False
        if self._extent(node.name)[1] > MOST_DEPTH:
            self._refuse_size(insight)
            return False
        return True

    def _meet(
        self, node: ast.InsightReference, insight: ast.Insight, definition: Definition
    ) -> bool:
        """Return whether the other insight has a value whenever this one needs it."""
        every = insight.every
        if not isinstance(every, ast.Interval | ast.Daily):
            return self._meet_at_points(node, definition)
        ticks = ticks_of(every)
        if ticks is None:  # what is said of elsewhere
            return True
        if not definition.each_point and not ticks.are_of(definition.ticks):
            step = _words(definition.ticks)
            self.findings.error(
                node.span,
                f"`{node.name}` has a value every {step}, `{insight.name}` is computed "
                f"every {_words(ticks)}",
                f"Give `{insight.name}` an EVERY of {step}, or of a multiple of it.",
            )
            return False
        if len(ticks.phases) > 1 and any(map(_accumulates, _parts(definition))):
            self.findings.error(
                node.span,
                f"`{node.name}` accumulates from tick to tick, and where clocks change, days are "
                "not equally long",
                "Take a zone whose clocks never change, as in `EVERY 1 DAYS AT 23:59 GMT`.",
            )
            return False
        return True

    def _meet_at_points(self, node: ast.InsightReference, definition: Definition) -> bool:
        found = list(_parts(definition))
        if any(isinstance(part, Reduction) for part in found):
            reason = f"`{node.name}` is made of the values that several keys have at a tick"
        elif any(isinstance(part, Aggregate) and _is_drawn(part) for part in found):
            reason = f"`{node.name}` is of samples, which are taken step by step"
        else:
            return True
        self.findings.error(
            node.span,
            f"{reason}, and this insight has values at each point",
            "Add an EVERY to the insight.",
        )
        return False

    def _of_deployed(self, node: ast.InsightReference) -> Definition | None:
        if self.deployed is None:
            self.findings.error(
                node.span,
                f"which insights run is not known now, nor whether there is `{node.name}`",
                "Try again once the storage agent can be reached.",
            )
            return None
        found = self.deployed.get(node.name, ())
        if not found:
            near = self.findings.nearest(node.name, {*self._found, *self.deployed} - {node.name})
            self.findings.error(
                node.span,
                f"there is no insight `{node.name}`",
                did_you_mean(near) if near else "Deploy it first, or define it in this text.",
            )
        elif len({_told_apart(definition) for definition in found}) > 1:
            self.findings.error(
                node.span,
                f"{len(found)} deployments have an insight `{node.name}`, and they differ",
                "Define the one that you mean in this text, or deploy it under another name.",
            )
            return None
        return next(iter(found), None)

    def _extent(self, name: str) -> tuple[int, int]:
        definition = self._found[name]
        if name not in self._extents and definition is not None:
            self._extents[name] = _extent(definition)
        return self._extents[name]

    def _refuse_size(self, insight: ast.Insight) -> None:
        self.findings.error(
            beginning(insight.span, len(insight.name)),
            f"`{insight.name}` and what it refers to are over {MOST_NODES:,} parts "
            f"or {MOST_DEPTH} levels deep",
            "Refer to fewer insights, or to some that refer to fewer.",
        )


def _told_apart(definition: Definition) -> Hashable:
    """Return what two insights of the same name must have in common to be the same."""
    d = definition
    return d.expression, d.by, d.ticks, d.each_point, d.filter, d.counted, d.feed


def _words(ticks: Ticks) -> str:
    at = "" if ticks.at is msgspec.UNSET else f" at {ticks.at}"
    return in_words(ticks.every_ms) + at


def _accumulates(part: Expression) -> bool:
    return isinstance(part, Aggregate) and part.function in ACCUMULATING


def _parts(definition: Definition) -> Iterator[Expression]:
    for root in (definition.expression, definition.filter):
        if root is not None:
            yield from walk_plan(root)


def _is_drawn(part: Aggregate) -> bool:
    return isinstance(part.source.sampling, ByLot)


def _when(part: Expression, ticks: Ticks, each_point: bool, anew: bool) -> Expression:
    """Return a part at other moments; ``anew``: these are none of its own."""
    if not isinstance(part, Aggregate):
        return part
    # Its windows keep their size, also those that spanned its own interval; but what accumulates
    # has none, and takes each point once.
    size = part.size_ms
    if _accumulates(part):
        size = ticks.every_ms
    elif part.function == "LATEST" and anew:
        size = current_ms(ticks.every_ms)
    return msgspec.structs.replace(
        part, size_ms=size, every_ms=ticks.every_ms, at=ticks.at, each_point=each_point
    )


def _extent(definition: Definition) -> tuple[int, int]:
    """Return how many nodes a definition has, up to a bound, and how many levels."""
    roots = [part for part in (definition.expression, definition.filter) if part is not None]
    waiting, count, depth = [(root, 1) for root in roots], 0, 0
    while waiting and count <= MOST_NODES:
        node, level = waiting.pop()
        count, depth = count + 1, max(depth, level)
        waiting.extend((below, level + 1) for below in _below(node))
    return count, depth


def _below(node: Expression) -> Iterator[Expression]:
    yield from children(node)
    if isinstance(node, Aggregate):
        for source in (node.source, node.other):
            if source is not None and source.predicate is not None:
                yield source.predicate
