"""Tests that a machine may skip."""

from pathlib import Path

_TESTS = Path(__file__).parent
_OF_THE_KERNEL_OR_OF_DATA = {
    "analytics_worker/lifecycle/test_start_priority.py",
    "deployment/test_compose.py",
    "mistbow/test_ports.py",
    "storage_agent/promql/test_prometheus_files.py",
    "storage_agent/test_disk_alarm.py",
    "storage_agent/test_rainbow.py",
}
"""Files with other skipped tests, which need a feature of the kernel, or data."""


def test_no_test_is_skipped_in_ci_because_a_program_is_missing() -> None:
    skipping = {
        str(file.relative_to(_TESTS))
        for file in _TESTS.rglob("*.py")
        if file != Path(__file__)
        and any(word in (text := file.read_text()) for word in ("skipif(", "pytest.skip("))
        and "MISTBOW_NEEDS_DOCKER" not in text
    }
    assert skipping <= _OF_THE_KERNEL_OR_OF_DATA
