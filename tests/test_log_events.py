"""The names of log events, which operators set alerts on."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_PACKAGES = sorted(
    file.parent for file in ROOT.glob("*/__init__.py") if file.parent.name != "tests"
)
_LEVELS = {"debug", "info", "warning", "error", "critical", "exception"}


def _calls(folder: Path) -> Iterator[ast.Call]:
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and node.args:
                yield node


def _events() -> Iterator[str]:
    """Yield the events of calls such as ``log.info("…")``, and of periodic tasks."""
    for package in _PACKAGES:
        for call in _calls(package):
            name = call.args[0]
            if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
                continue
            match call.func:
                case ast.Attribute(ast.Name("log" | "_log"), level) if level in _LEVELS:
                    yield name.value
                case ast.Name("Schedule"):
                    yield f"{name.value}_failed"
                    yield f"{name.value}_recovered"


EVENTS = sorted(set(_events()))


def test_log_events_are_found() -> None:
    assert {"agent_fenced", "lease_check_failed", "points_dropped"} <= set(EVENTS)


@pytest.mark.parametrize("event", EVENTS)
def test_log_event_is_listed_in_the_changelog(event: str) -> None:
    listed = (ROOT / "CHANGELOG.md").read_text()
    present = f"`{event}`" in listed or (
        event.endswith("_recovered") and f"`{event.removesuffix('_recovered')}_failed`" in listed
    )
    assert re.fullmatch("[a-z]+(_[a-z]+)+", event)
    assert present, f"add {event} to the table of log events in CHANGELOG.md"
