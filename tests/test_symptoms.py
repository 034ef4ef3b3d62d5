"""The index of symptoms in ``docs/symptoms.md``: each name and text in it exists."""

import ast
import re

from analytics_enabler.execution.lifecycle import STATES, State
from mistbow.errors import MistbowError
from tests.deployment.monitoring_files import alerts
from tests.test_log_events import ROOT

_PAGE = (ROOT / "docs" / "symptoms.md").read_text()
_PACKAGES = ("mistbow", "storage_agent", "analytics_enabler", "analytics_worker")


def symptoms(section: str) -> list[str]:
    """Return the first cells of the table in a section."""
    [text] = (part for part in _PAGE.split("\n## ") if part.startswith(f"{section}\n"))
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [row.split(" | ")[0].removeprefix("| ") for row in rows[1:]]


def names(section: str) -> set[str]:
    """Return the words in backticks among the symptoms of a section."""
    return {name for cell in symptoms(section) for name in re.findall(r"`([^`]+)`", cell)}


def errors(kind: type[MistbowError] = MistbowError) -> set[tuple[int, str]]:
    """Return the status and the code of each class of errors."""
    return {(kind.status, kind.code)}.union(*map(errors, kind.__subclasses__()))


def constants(source: str) -> list[str]:
    """Return the constant texts in the source of a module; adjacent texts are one."""
    nodes = ast.walk(ast.parse(source))
    return [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def test_each_alert_is_in_the_index() -> None:
    assert names("Alerts") == {rule["alert"] for rule in alerts()}


def test_statuses_of_the_index_belong_to_their_codes() -> None:
    cells = symptoms("Responses to requests")
    found = {
        (int(answer[1]), answer[2])
        for cell in cells
        if (answer := re.match(r"(\d{3}) `([a-z_]+)`", cell))
    }
    assert found <= errors()
    assert {408, 409, 413, 429, 503, 507} <= {status for status, _ in found}


def test_states_of_the_index_exist() -> None:
    known = {state.value for state in State} | {each.status for each in STATES}
    # States of fragments, and a field of an insight.
    assert names("States") <= known | {"fenced", "orphaned", "silent"}
    unlisted = {"submitted", "starting", "running", "stopped"}
    assert {state.value for state in State} - unlisted <= names("States")


def test_texts_of_the_index_are_in_the_code() -> None:
    cells = symptoms("Texts of /readyz")
    missing = {text.removesuffix("…") for cell in cells for text in re.findall(r'"([^"]+)"', cell)}
    assert len(missing) >= len(cells)
    for file in (file for package in _PACKAGES for file in (ROOT / package).rglob("*.py")):
        source = file.read_text()
        # The rest of a text may be in the next line.
        possible = [text for text in missing if " ".join(text.split()[:2]) in source]
        if possible:
            found = "\n".join(constants(source))
            missing -= {text for text in possible if text in found}
    assert missing == set()
