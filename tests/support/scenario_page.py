"""The page that lists when each scenario last passed, which ``make scenarios`` writes."""

from dataclasses import astuple, dataclass
from pathlib import Path

from tests.support.table_page import replace_rows

_HEAD = """# Scenarios

Each row is the last run of a scenario by `make scenarios` in which all results equalled those of
the oracle. Results are compared for the given time, from the first result of all sites on. The city
is [smaller](../../docs/emulated-fog.md) than its file.

| file | scenario | date | sites | minutes | compared results |
| --- | --- | --- | --- | --- | --- |
"""


@dataclass(frozen=True)
class ScenarioRun:
    """A scenario of a file that has passed: the date, the number of sites, the compared time."""

    file: str
    scenario: str
    date: str
    sites: str
    minutes: str
    compared: str


def add_run(page: Path, run: ScenarioRun) -> None:
    """Add a run to the page, in the place of the earlier run of the scenario."""
    replace_rows(page, _HEAD, [astuple(run)], keys=2)
