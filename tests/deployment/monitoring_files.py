"""The alert rules and the dashboard in ``deploy/``: their expressions, and the metrics in them."""

import json
import re
from typing import Any

import yaml

from deploy import image

RULES = image.ROOT / "deploy" / "prometheus" / "mistbow.rules.yml"
RULE_TESTS = image.ROOT / "deploy" / "prometheus" / "mistbow.rules.test.yml"
DASHBOARD = image.ROOT / "deploy" / "grafana" / "mistbow.json"

_METRIC = re.compile(r"\bmistbow_[a-z_]+\b")


def alerts() -> list[dict[str, Any]]:
    """Return the alert rules."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard_queries(instance: str = ".*", interval: str = "1m") -> list[str]:
    """Return the queries of the dashboard, with values for its variables."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [
        target["expr"].replace("$__rate_interval", interval).replace("$instance", instance)
        for panel in panels
        for target in panel["targets"]
    ]


def metrics_in(query: str) -> set[str]:
    """Return the names of Mistbow's metrics in a query."""
    return set(_METRIC.findall(query))
