"""The page of the scenarios: a run replaces the earlier one of its scenario."""

from pathlib import Path

from tests.support.scenario_page import ScenarioRun, add_run


def test_run_replaces_the_earlier_run_of_its_scenario(tmp_path: Path) -> None:
    page = tmp_path / "scenarios.md"
    tunnel = ScenarioRun("bus_fleet", "tunnel", "2026-11-01", "4", "5", "1,200")
    busy = ScenarioRun("factory", "busy-server", "2026-11-02", "5", "5", "900")
    again = ScenarioRun("bus_fleet", "tunnel", "2026-12-01", "4", "1", "300")
    for run in (busy, tunnel, again):
        add_run(page, run)
    rows = page.read_text().splitlines()[-3:]
    assert rows == [
        "| --- | --- | --- | --- | --- | --- |",
        "| bus_fleet | tunnel | 2026-12-01 | 4 | 1 | 300 |",
        "| factory | busy-server | 2026-11-02 | 5 | 5 | 900 |",
    ]
