"""Golden plans: queries, and the plan after each rule.

``python -m tests.analytics_enabler.optimizer.golden`` writes them anew, to be read as a diff.
"""

from pathlib import Path

import yaml

from analytics_enabler.optimizer import optimize
from analytics_enabler.plan_text import plan_text
from tests.analytics_enabler.support import plan_of

PLANS = sorted((Path(__file__).parents[2] / "plans").glob("*.yaml"))


def queries_of(path: Path) -> str:
    """Return the queries that a file is about."""
    queries: str = yaml.safe_load(path.read_text(encoding="utf-8"))["queries"]
    return queries


def golden_text(queries: str) -> str:
    """Return what the file of these queries should be."""
    plan = plan_of(queries)
    parts = {"queries": queries.strip(), "plan": plan_text(plan)}
    for step in optimize(plan).steps:
        # A rule that another one gave something to do comes again.
        title = f"after {step.rule}"
        again = " again" * sum(each.startswith(title) for each in parts)
        parts[f"{title}{again}"] = f"# {step.did}\n{plan_text(step.plan)}"
    return "\n".join(f"{title}: |\n{_indented(text)}" for title, text in parts.items())


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def main() -> None:
    """Write all files anew."""
    for path in PLANS:
        path.write_text(golden_text(queries_of(path)), encoding="utf-8")


if __name__ == "__main__":
    main()
