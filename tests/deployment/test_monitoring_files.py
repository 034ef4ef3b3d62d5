"""The alert rules and the dashboard, checked by Prometheus' own tool."""

import json
import subprocess

import pytest
import yaml

from tests.deployment.monitoring_files import DASHBOARD, RULE_TESTS, RULES, alerts, metrics_in
from tests.support.programs import needs


@pytest.mark.usefixtures("processes")
@needs("promtool")
@pytest.mark.parametrize("arguments", [("check", str(RULES)), ("test", str(RULE_TESTS))], ids=str)
def test_promtool_accepts_rules_and_their_tests(arguments: tuple[str, str]) -> None:
    what, file = arguments
    done = subprocess.run(
        ("promtool", what, "rules", file), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout + done.stderr


def test_each_alert_states_severity_summary_and_action() -> None:
    found = alerts()
    assert len({rule["alert"] for rule in found}) == len(found) > 10
    for rule in found:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "action"}
        assert metrics_in(rule["expr"]) or rule["expr"].startswith("up{")


def test_each_alert_has_a_case_in_which_it_fires() -> None:
    groups = yaml.safe_load(RULE_TESTS.read_text())["tests"]
    cases = [case for group in groups for case in group["alert_rule_test"]]
    firing = {case["alertname"] for case in cases if case["exp_alerts"]}
    assert firing == {rule["alert"] for rule in alerts()}


def test_dashboard_panels_have_distinct_ids_and_do_not_overlap() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
