"""The guard of unit tests, which fails a unit test that starts a process."""

import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.speeds import may_have_alone_tests

TRUE = "/bin/true"
STARTS: dict[str, Callable[[], object]] = {
    "run": lambda: subprocess.run([TRUE], check=True),
    "system": lambda: os.system(TRUE),  # noqa: S605 - a fixed command
    "execv": lambda: os.execv(TRUE, [TRUE]),  # noqa: S606 - a fixed command
    "posix_spawn": lambda: os.posix_spawn(TRUE, [TRUE], {}),
    "spawnv": lambda: os.spawnv(os.P_WAIT, TRUE, [TRUE]),  # noqa: S606 - a fixed command
    "fork": os.fork,
    "pty": lambda: pty.spawn(TRUE),
}


@pytest.mark.parametrize("way", STARTS)
def test_unit_test_that_starts_process_fails(way: str) -> None:
    with pytest.raises(AssertionError, match="starts a process"):
        STARTS[way]()


def test_integration_test_starts_processes(processes: None) -> None:
    assert subprocess.run([TRUE], check=False).returncode == 0


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", True),
        ("analytics_enabler", True),
        ("analytics_enabler/domains/test_lost_site.py", True),
        ("end_to_end", True),
        ("analytics_enabler/live", False),
        ("test_speeds.py", False),
        ("../mistbow", False),
    ],
)
def test_only_folders_of_alone_tests_are_collected_for_them(path: str, expected: bool) -> None:
    assert may_have_alone_tests((Path(__file__).parent / path).resolve()) is expected
