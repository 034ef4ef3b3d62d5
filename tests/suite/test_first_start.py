"""The first ``mistbow run`` in a new folder, which downloads the jars of Ignite."""

from pathlib import Path

import pytest

from tests.support.suite import suite_process, wait_for_line

_START_S = 300


@pytest.mark.usefixtures("processes")
@pytest.mark.timeout(_START_S + 120)
def test_ignite_starts_where_its_jars_are_not_downloaded_yet(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with suite_process(home):
        wait_for_line(home, "ignite is ready", _START_S)
