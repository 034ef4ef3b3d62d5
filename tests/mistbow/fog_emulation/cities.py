"""The models that these tests use."""

from pathlib import Path
from typing import Any

import yaml

from mistbow.fog_emulation import model

SMART_CITY = Path(__file__).parents[3] / "fogify_scenarios" / "smart_city.yml"

QUALITY = {"bandwidth": "8Mbps", "latency": {"delay": "20ms", "deviation": "2ms"}, "drop": "10%"}


def small_city() -> dict[str, Any]:
    """Return a compose file with two labels in one network, to be changed at will."""
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
    """Return the small city with a scenario of (time, label, instances, type, parameters)."""
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
