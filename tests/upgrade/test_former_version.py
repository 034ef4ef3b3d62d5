"""A clone without the history that the tests of upgrades need."""

from pathlib import Path

import pytest

from tests.upgrade.former_version import unpack_former_version

pytestmark = pytest.mark.usefixtures("processes")

UNKNOWN = "0" * 40


@pytest.mark.parametrize(
    ("in_ci", "outcome"), [(True, pytest.fail.Exception), (False, pytest.skip.Exception)]
)
def test_missing_history_fails_the_tests_of_upgrades_in_ci_only(
    in_ci: bool,
    outcome: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if in_ci:
        monkeypatch.setenv("MISTBOW_NEEDS_DOCKER", "1")
    else:
        monkeypatch.delenv("MISTBOW_NEEDS_DOCKER", raising=False)
    # A skip that only passes through would skip this test too.
    outcomes = (pytest.fail.Exception, pytest.skip.Exception)
    with pytest.raises(outcomes, match="lacks the commit") as raised:
        unpack_former_version(tmp_path, UNKNOWN)
    assert raised.type is outcome
