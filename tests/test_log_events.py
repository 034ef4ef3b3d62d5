"""The names of log events, which operators set alerts on, and the page that describes them."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_SERVICES = {
    "mistbow": "all",
    "storage_agent": "agent",
    "analytics": "enabler, worker",
    "analytics_enabler": "enabler",
    "analytics_worker": "worker",
    "monitoring_agent": "monitor",
    "ignite_server": "supervisor",
    "suite": "supervisor",
    "city_workload": "city",
}
"""Package -> the services that log its events."""

_LEVELS = ("critical", "error", "warning", "info", "debug")
_METHODS = {level: level for level in _LEVELS} | {"exception": "error"}
_PROBLEMS = {"critical", "error", "warning"}


def _calls(folder: Path) -> Iterator[ast.Call]:
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and node.args:
                yield node


def _events() -> Iterator[tuple[str, str, str]]:
    """Yield (event, level, package) of calls such as ``log.info("…")``, and of periodic tasks."""
    packages = {file.parent for file in ROOT.glob("*/__init__.py")}
    for package in packages - {ROOT / "tests"}:
        for call in _calls(package):
            name = call.args[0]
            if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
                continue
            match call.func:
                case ast.Attribute(ast.Name("log" | "_log"), method) if method in _METHODS:
                    yield name.value, _METHODS[method], package.name
                case ast.Name("Schedule"):
                    yield f"{name.value}_failed", "error", package.name
                    yield f"{name.value}_failed", "warning", package.name
                    yield f"{name.value}_recovered", "recovery", package.name


def _expected() -> dict[str, tuple[str, str]]:
    """Return the service and the level of each event that the page lists."""
    levels: defaultdict[str, set[str]] = defaultdict(set)
    services: defaultdict[str, list[str]] = defaultdict(list)
    for event, level, package in _FOUND:
        if level != "recovery":
            levels[event].add(level)
            services[event] += _SERVICES[package].split(", ")
    order = list(dict.fromkeys(", ".join(_SERVICES.values()).split(", ")))
    return {
        event: (
            ", ".join(sorted(set(services[event]), key=order.index)),
            ", ".join(sorted(levels[event], key=_LEVELS.index)),
        )
        for event in levels
    }


def _listed(section: str) -> dict[str, list[str]]:
    """Return the cells of each row of a table of the page."""
    page = (ROOT / "docs" / "log_events.md").read_text()
    [text] = (part for part in page.split("\n## ") if part.startswith(f"{section}\n"))
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert rows == sorted(rows), "the rows are not in the order of their events"
    return {event.strip("`"): cells for event, *cells in rows}


_FOUND = sorted(set(_events()))
EVENTS = sorted({event for event, _, _ in _FOUND})


def test_log_events_are_found() -> None:
    assert {"agent_fenced", "lease_check_failed", "points_dropped"} <= set(EVENTS)


@pytest.mark.parametrize("event", EVENTS)
def test_log_event_is_a_noun_and_a_verb(event: str) -> None:
    assert re.fullmatch("[a-z]+(_[a-z]+)+", event)


def test_page_lists_each_log_event_with_its_service_and_level() -> None:
    problems, others = _listed("Problems"), _listed("Other events")
    expected = _expected()
    listed = {event: (cells[0], cells[1]) for event, cells in (problems | others).items()}
    missing = sorted(expected.keys() - listed.keys())
    assert not missing, f"add rows to docs/log_events.md: {missing}"
    assert listed == expected
    assert not problems.keys() & others.keys()


def test_page_has_an_action_for_each_problem() -> None:
    problems = _listed("Problems")
    levels = {event: set(level.split(", ")) for event, (_, level) in _expected().items()}
    assert problems.keys() == {event for event, level in levels.items() if level & _PROBLEMS}
    assert all(len(cells) == 4 and all(cells) for cells in problems.values())
