"""Compose files and Fogify models for tests."""

from pathlib import Path
from typing import Any

import yaml

from fog_emulation import model

CITY = Path(__file__).parents[2] / "docker-compose.yml"

FILES = (CITY, *sorted((CITY.parent / "fogify_scenarios").glob("*.yml")))
"""All files in the form of Fogify that belong to Mistbow."""

QUALITY = {"bandwidth": "8Mbps", "latency": {"delay": "20ms", "deviation": "2ms"}, "drop": "10%"}


def small_city() -> dict[str, Any]:
    """Return a small compose file with a Fogify model: the labels a and b in one network."""
    return {
        "services": {"web": {"image": "any"}},
        "x-fogify": {
            "nodes": [
                {
                    "name": "box",
                    "capabilities": {
                        "processor": {"cores": 2, "clock_speed": 1000},
                        "memory": "512M",
                    },
                }
            ],
            "networks": [{"name": "net", "bidirectional": dict(QUALITY)}],
            "topology": [
                {"node": "box", "service": "web", "label": "a", "networks": ["net"]},
                {"node": "box", "service": "web", "label": "b", "replicas": 2, "networks": ["net"]},
            ],
            "scenarios": [],
        },
    }


def parsed(compose: dict[str, Any]) -> model.FogModel:
    """Return the model of a compose file."""
    return model.parse(yaml.safe_dump(compose))


def with_actions(*actions: tuple[int, str, int, str, dict[str, Any]]) -> model.FogModel:
    """Return the model of the small city with a scenario of actions.

    An action: (seconds after the previous action, label, number of instances, type, parameters).
    """
    compose = small_city()
    compose["x-fogify"]["scenarios"] = [
        {
            "name": "story",
            "actions": [
                {
                    "time": time,
                    "position": position,
                    "instance_type": label,
                    "instances": instances,
                    "action": {"type": kind, "parameters": parameters},
                }
                for position, (time, label, instances, kind, parameters) in enumerate(actions)
            ],
        }
    ]
    return parsed(compose)
