"""Golden plans: the steps of the optimizer equal the reviewed steps in the golden files."""

from pathlib import Path

import pytest

from tests.analytics_enabler.optimizer.golden import PLANS, golden_text, queries_of


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_golden_plan(path: Path) -> None:
    assert golden_text(queries_of(path)) == path.read_text(encoding="utf-8"), (
        "review the change, then run: python -m tests.analytics_enabler.optimizer.golden"
    )


def test_golden_plans_exist() -> None:
    assert len(PLANS) >= 6
