from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.suite import Suite, running_suite

_HOST_INSIGHTS = Path(__file__).parents[2] / "examples" / "host.insights"


@pytest.fixture(scope="package")
def suite(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    with running_suite(tmp_path_factory.mktemp("suite"), _HOST_INSIGHTS) as running:
        yield running
