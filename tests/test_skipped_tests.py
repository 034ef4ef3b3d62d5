"""Tests that a machine may skip."""

from pathlib import Path

_TESTS = Path(__file__).parent
_OTHERS = {
    "analytics_worker/lifecycle/test_start_priority.py",
    "deployment/test_compose.py",
    "mistbow/test_ports.py",
    "storage_agent/promql/test_prometheus_files.py",
    "storage_agent/test_disk_alarm.py",
    "storage_agent/test_rainbow.py",
}
"""Files with other skipped tests, which need a feature of the kernel, or data.

``test_compose.py`` skips a program: CI has one of ``docker compose`` and docker-compose 1.29, and
the file is checked by those that are installed.
"""


def _skips(text: str) -> bool:
    """Return whether a file skips tests also if ``MISTBOW_NEEDS_DOCKER`` is set.

    A file that reads this variable may contain another skip, which this function does not find.
    """
    return ("skipif(" in text or "pytest.skip(" in text) and "MISTBOW_NEEDS_DOCKER" not in text


def test_no_file_but_these_skips_tests_in_ci() -> None:
    skipping = {
        str(file.relative_to(_TESTS))
        for file in _TESTS.rglob("*.py")
        if file != Path(__file__) and _skips(file.read_text())
    }
    assert skipping <= _OTHERS
