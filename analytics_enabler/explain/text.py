"""An explanation for reading."""

from analytics_enabler.explain.tree import tree_lines
from grammar import render
from mistbow.insights import Explanation


def explanation_text(explanation: Explanation, queries: str) -> str:
    """Return an explanation of ``queries`` as text, with a heading for each part."""
    parts = [("Problems", [render(problem, queries) for problem in explanation.problems])]
    parts.append(("Syntax", [line for tree in explanation.ast for line in tree_lines(tree)]))
    parts.append(("Plan", explanation.plan))
    parts += [(f"After {step.rule}", step.plan) for step in explanation.steps]
    for fragment in explanation.fragments:
        title = f"Fragment {fragment.id}: {fragment.source} to {fragment.target}, "
        parts.append((f"{title}{fragment.insights} insights in all", fragment.plan))
    parts.append(("Shared", [shared.text for shared in explanation.shared]))
    return "\n\n".join(f"{title}\n{_indented(lines)}" for title, lines in parts if lines) + "\n"


def _indented(lines: list[str]) -> str:
    return "\n".join(f"  {line}" for text in lines for line in text.splitlines())
