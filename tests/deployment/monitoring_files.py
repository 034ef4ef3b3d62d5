"""The alert rules and the dashboard in ``deploy/``, and the documented configurations."""

import json
import re
from typing import Any

import yaml

from deploy import image

RULES = image.ROOT / "deploy" / "prometheus" / "mistbow.rules.yml"
RULE_TESTS = image.ROOT / "deploy" / "prometheus" / "mistbow.rules.test.yml"
Config = dict[str, Any]
"""A configuration of Prometheus."""

DASHBOARD = image.ROOT / "deploy" / "grafana" / "mistbow.json"

_METRIC = re.compile(r"\bmistbow_[a-z_]+\b")


def alerts() -> list[dict[str, Any]]:
    """Return the alert rules."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def documented(page: str) -> Config:
    """Return the configuration of Prometheus in a document."""
    blocks = re.findall(r"```yaml\n(.*?)```", (image.ROOT / "docs" / page).read_text(), re.DOTALL)
    [found] = (block for block in blocks if "scrape_configs" in block)
    config: Config = yaml.safe_load(found)
    return config


def sites_of(config: Config) -> dict[str, Config]:
    """Return the jobs of a configuration by their sites."""
    return {job["job_name"].removeprefix("mistbow-"): job for job in config["scrape_configs"]}


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
