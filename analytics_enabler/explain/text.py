"""Conversion of explanations to text."""

from collections.abc import Iterator

from analytics.insight_models import (
    ExplainedEdge,
    ExplainedGroup,
    ExplainedSaving,
    Explanation,
    FragmentCostModel,
)
from analytics_enabler.explain.tree import tree_lines
from grammar import render


def explanation_text(explanation: Explanation, queries: str) -> str:
    """Return an explanation of ``queries`` as text, with a heading above each part."""
    parts = [("Problems", [render(problem, queries) for problem in explanation.problems])]
    parts.append(("Summary", explanation.summary))
    parts.append(("Syntax", [line for tree in explanation.ast for line in tree_lines(tree)]))
    parts.append(("Plan", explanation.plan))
    several = len({step.group for step in explanation.steps}) > 1
    for step in explanation.steps:
        where = f" in group {step.group}" if several else ""
        parts.append((f"After {step.rule}{where}: {step.did}", step.plan))
    for group in explanation.groups:
        many = "1 insight" if group.insights == 1 else f"{group.insights} insights"
        title = f"Group {group.id}: {many} in all, placed by {group.scheduler}"
        parts.append((title, list(_group(group))))
    parts.append(("Shared", [shared.text for shared in explanation.shared]))
    return "\n\n".join(f"{title}\n{_indented(lines)}" for title, lines in parts if lines) + "\n"


def _group(group: ExplainedGroup) -> Iterator[str]:
    if group.problem is not None:
        yield f"the scheduler failed: {group.problem}"
    last_plan: list[str] = []
    for fragment in group.fragments:
        state = "runs" if fragment.running else "would run"
        where = "no worker can run it"
        if fragment.worker is not None:
            where = f"{state} on {fragment.worker}, site {fragment.site}"
        yield f"{fragment.kind} {fragment.id}: {where}"
        yield f"  {', '.join(fragment.sources)} -> {fragment.target}"
        for what, cost in (("estimated", fragment.estimated), ("measured", fragment.measured)):
            if cost is not None:
                yield f"  {what}: {_cost_text(cost)}"
        if fragment.checked:
            yield f"  checks the quality of {fragment.checked:.0%} of the points"
        # Partials have the same panes, so these are listed once.
        if fragment.plan != last_plan:
            yield from (f"  {line}" for line in fragment.plan)
        last_plan = fragment.plan
    for read in group.remote_reads:
        yield read.words
    if group.edges:
        yield "each second, at most"
        yield from (f"  {_edge(edge)}" for edge in group.edges)
    yield from (_saving_text(saving) for saving in group.savings)
    if group.cost_per_hour or group.cost_cap_per_hour is not None:
        yield _cost(group)
    if group.refusals:
        yield "refused"
        yield from (f"  {refusal}" for refusal in group.refusals)


def _cost_text(cost: FragmentCostModel) -> str:
    parts = [
        None if cost.cores is None else f"{cost.cores:.2g} cores",
        None if cost.memory_mb is None else f"{cost.memory_mb:.0f} MB",
        None if cost.points_per_s is None else f"reads {cost.points_per_s:.3g} rows/s",
        None if cost.bytes_per_s is None else f"writes {_bytes(cost.bytes_per_s)}/s",
    ]
    return ", ".join(part for part in parts if part is not None)


def _cost(group: ExplainedGroup) -> str:
    cost = "unknown" if group.cost_per_hour is None else f"{group.cost_per_hour:.4g}"
    cap = group.cost_cap_per_hour
    return f"cost per hour: {cost}{'' if cap is None else f' (COST_CAP: {cap:.4g})'}"


def _edge(edge: ExplainedEdge) -> str:
    many = "" if edge.per_s is None else f"{edge.per_s:.3g} "
    text = f"{edge.source} -> {edge.target}: {many}{edge.carries}, {_bytes(edge.bytes_per_s)}"
    if edge.measured is not None:
        text += f" (measured: {_bytes(edge.measured)})"
    return text if edge.is_local else f"{text}; from site to site"


def _saving_text(saving: ExplainedSaving) -> str:
    numbers = (saving.per_s, saving.instead_of)
    made, instead = ("unknown" if each is None else f"{each:.3g}" for each in numbers)
    return f"{saving.step}: {saving.did}; {made} {saving.unit} each second, not {instead}"


def _bytes(count: float | None) -> str:
    if count is None:
        return "unknown bytes"
    return f"{count:.0f} B" if count < 1000 else f"{count / 1000:.1f} kB"


def _indented(lines: list[str]) -> str:
    return "\n".join(f"  {line}" for text in lines for line in text.splitlines())
