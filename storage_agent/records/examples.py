"""Example bodies for the OpenAPI document of the records API."""

from typing import Any

Example = dict[str, Any]

ANALYTICS: Example = {
    "analytics": [{"key": "load", "val": {"mean": 0.7}, "timestamp": 1795262400000}]
}
APP: Example = {
    "application": [
        {
            "key": "room-7",
            "val": {"floor": 2, "name": "lab"},
            "timestamp": 1795262400000,
            "schema": "room",
        }
    ]
}
READ: Example = {"key": ["load", "room-7"], "from": 1795262400000, "to": 1795262460000}
DELETE: Example = {"key": ["load", "room-7"]}
SCHEMA: Example = {
    "schema": {
        "type": "object",
        "properties": {"floor": {"type": "integer"}, "name": {"type": "string"}},
        "required": ["floor"],
    },
    "indexed": ["floor"],
}
QUERY: Example = {"schema": "room", "where": {"floor": {"gte": 1, "lte": 3}}, "limit": 100}
ROUTING: Example = {
    "routing": [
        {
            "node": "edge-1",
            "routes": [
                {
                    "destination": "0.0.0.0/0",
                    "gateway": "10.0.0.1",
                    "interface": "eth0",
                    "metric": 100,
                }
            ],
            "timestamp": 1795262400000,
        }
    ]
}
ROUTING_READ: Example = {"nodes": ["edge-1"]}
