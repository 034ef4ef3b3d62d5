"""The columns of tables with a row for each series."""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from storage_agent.series import Metadata

METADATA_COLUMNS: dict[str, tuple[pa.DataType, Callable[[Metadata], Any]]] = {
    "entity_type": (pa.string(), lambda metadata: metadata.get("entityType")),
    "name": (pa.string(), lambda metadata: metadata.get("name")),
    "units": (pa.string(), lambda metadata: metadata.get("units")),
    # Not desc and group, which are keywords of SQL.
    "description": (pa.string(), lambda metadata: metadata.get("desc")),
    "group_name": (pa.string(), lambda metadata: metadata.get("group")),
    "min_val": (pa.float64(), lambda metadata: metadata.get("minVal")),
    "max_val": (pa.float64(), lambda metadata: metadata.get("maxVal")),
    "higher_is_better": (pa.bool_(), lambda metadata: metadata.get("higherIsBetter")),
    "pod_uuid": (pa.string(), lambda metadata: metadata.get("pod", {}).get("uuid")),
    "pod_name": (pa.string(), lambda metadata: metadata.get("pod", {}).get("name")),
    "pod_namespace": (pa.string(), lambda metadata: metadata.get("pod", {}).get("namespace")),
    "container_id": (pa.string(), lambda metadata: metadata.get("container", {}).get("id")),
    "container_name": (pa.string(), lambda metadata: metadata.get("container", {}).get("name")),
}
"""Name of a column -> (type, function that returns the value in the metadata of a series)."""

_COLUMN_OF_FIELD = {
    "entityType": "entity_type",
    "desc": "description",
    "groupName": "group_name",
    "minVal": "min_val",
    "maxVal": "max_val",
    "higherIsBetter": "higher_is_better",
    "podUUID": "pod_uuid",
    "podName": "pod_name",
    "podNamespace": "pod_namespace",
    "containerID": "container_id",
    "containerName": "container_name",
}
"""The fields of a /list whose columns have other names."""

SERIES_FIELDS = [pa.field(name, pa.string(), nullable=False) for name in ("metric", "entity")]


def columns_of(fields: Iterable[str]) -> list[str]:
    """Return the columns with the metadata that the ``fields`` of a /list name; empty: all columns.

    >>> columns_of({"pod", "desc", "unknown"})
    ['description', 'pod_uuid', 'pod_name', 'pod_namespace']
    """
    named = {_COLUMN_OF_FIELD.get(each, each) for each in fields}
    prefixes = tuple(f"{each}_" for each in ("pod", "container") if each in named)
    return [
        column
        for column in METADATA_COLUMNS
        if not named or column in named or (prefixes and column.startswith(prefixes))
    ]
