"""Tests of the enabler use real workers, but for the tests of the wire format."""

from pathlib import Path

_TESTS = Path(__file__).parent


def test_only_the_tests_of_the_wire_format_use_a_worker_without_spark() -> None:
    users = {
        str(file.relative_to(_TESTS))
        for file in _TESTS.rglob("*.py")
        if "recording_worker import" in file.read_text() and file != Path(__file__)
    }
    assert users == {"analytics_enabler/execution/test_worker_wire_format.py"}
