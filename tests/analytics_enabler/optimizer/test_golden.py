"""The optimizer does to these plans what was reviewed."""

from pathlib import Path

import pytest

from tests.analytics_enabler.optimizer.golden import PLANS, golden_text, queries_of


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_golden_plan(path: Path) -> None:
    assert golden_text(queries_of(path)) == path.read_text(encoding="utf-8"), (
        "review the change, then run: python -m tests.analytics_enabler.optimizer.golden"
    )


def test_there_are_golden_plans() -> None:
    assert len(PLANS) >= 6
