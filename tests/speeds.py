"""The three speeds of tests, derived from the fixtures that a test requests.

- ``e2e``: the test requests ``suite`` or ``containers``.
- ``integration``: the test requests ``processes``, directly or through a fixture, or has the marker
  ``integration``, because it computes or waits for seconds.
- ``unit``: all other tests. A unit test that starts a process fails.

Tests ``alone`` are in few folders, so that a run of them collects only these.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_E2E = frozenset({"suite", "containers"})
_PROCESS_EVENTS = frozenset({
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
    "os.forkpty", "pty.spawn",
})  # fmt: skip
"""The audit events of all functions that start a process or replace the current process."""


_ALONE = ("adaptation", "analytics_enabler/domains", "chaos", "end_to_end", "handovers", "upgrade")
"""The folders with tests that run alone."""

_TESTS = Path(__file__).parent
_ALONE_FOLDERS = tuple(_TESTS / folder for folder in _ALONE)


class _ProcessGuard:
    """An audit hook that fails the test if a process starts while ``is_on``.

    Python cannot remove an audit hook, so the hook is switched on and off.
    """

    def __init__(self) -> None:
        self.is_on = False

    def __call__(self, event: str, _: object) -> None:
        if self.is_on and event in _PROCESS_EVENTS:
            raise AssertionError(
                "This unit test starts a process. Request the fixture `processes`, which makes it "
                "an integration test."
            )


_guard = _ProcessGuard()
sys.addaudithook(_guard)


@pytest.fixture(scope="session")
def processes() -> None:
    """A fixture without a value, requested by each test or fixture that starts a process."""


@pytest.fixture(scope="session")
def containers(processes: None) -> None:
    """A fixture without a value, requested by each test or fixture that starts containers."""


def speed_of(item: pytest.Item) -> str:
    """Return the speed of a test: ``unit``, ``integration`` or ``e2e``."""
    fixtures = set(getattr(item, "fixturenames", ()))
    if fixtures & _E2E:
        return "e2e"
    is_slow = item.get_closest_marker("integration") is not None
    return "integration" if is_slow or "processes" in fixtures else "unit"


def may_have_alone_tests(path: Path) -> bool:
    """Return whether a file or folder can be collected to tests that run alone."""
    return any(path.is_relative_to(each) or each.is_relative_to(path) for each in _ALONE_FOLDERS)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect no other folders if only tests that run alone are selected."""
    of_alone_only = config.option.markexpr.startswith("alone")
    return True if of_alone_only and not may_have_alone_tests(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its speed.

    Raises ``pytest.UsageError`` if a test ``alone`` is where a run of these does not collect it.
    """
    for item in items:
        item.add_marker(speed_of(item))
        if item.get_closest_marker("alone") and not may_have_alone_tests(item.path):
            raise pytest.UsageError(
                f"{item.nodeid} runs alone, so it must be in one of: {', '.join(_ALONE)}"
            )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Let a unit test fail if one of its fixtures starts a process."""
    yield from _guarded(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Let a unit test fail if it starts a process."""
    yield from _guarded(item)


def _guarded(item: pytest.Item) -> Iterator[None]:
    _guard.is_on = speed_of(item) == "unit"
    try:
        return (yield)
    finally:
        _guard.is_on = False
