"""Golden plans: each file contains queries, and their plan after each rule of the optimizer.

``python -m tests.analytics_enabler.optimizer.golden`` regenerates the files; review the diff.
"""

from pathlib import Path

import yaml

from analytics.plan.text import plan_text
from analytics_enabler.optimizer import optimize
from tests.analytics_enabler.support import plan_of

PLANS = sorted((Path(__file__).parents[2] / "plans").glob("*.yaml"))


def queries_of(path: Path) -> str:
    """Return the queries in a golden file."""
    queries: str = yaml.safe_load(path.read_text(encoding="utf-8"))["queries"]
    return queries


def golden_text(queries: str) -> str:
    """Return the content that the golden file of these queries must have."""
    plan = plan_of(queries)
    parts = {"queries": queries.strip(), "plan": plan_text(plan)}
    for step in optimize(plan).steps:
        # A rule may apply again after another one.
        title = f"after {step.rule}"
        again = " again" * sum(each.startswith(title) for each in parts)
        parts[f"{title}{again}"] = f"# {step.description}\n{plan_text(step.plan)}"
    return "\n".join(f"{title}: |\n{_indented(text)}" for title, text in parts.items())


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def main() -> None:
    """Regenerate all golden files."""
    for path in PLANS:
        path.write_text(golden_text(queries_of(path)), encoding="utf-8")


if __name__ == "__main__":
    main()
