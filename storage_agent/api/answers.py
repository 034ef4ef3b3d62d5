"""The successful answers of the agent's routes, for its OpenAPI document."""

from collections.abc import Mapping
from typing import Any

from mistbow.client.agent_model import Missing, ReplicaSource, RowsPage, SeriesPoints
from mistbow.client.backup_model import BackupCut, StreamDeletions
from mistbow.client.operation_model import (
    Cluster,
    Config,
    Copy,
    ReplicationState,
    Restrictions,
    SiteStatus,
)
from mistbow.client.record_model import Route
from mistbow.fabric import Fabric
from mistbow.openapi import AnswerDescription, inline_schema
from mistbow.streams.models import Appended, Offset, StreamInfo, WriterState
from storage_agent.http.accept import ARROW, JSON, LINES
from storage_agent.membership.heartbeat import Heartbeat
from storage_agent.replication.follower.replica_server import ReplicaProgress
from storage_agent.timeseries.aggregation import AggregateState

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "number"}
_COUNT: Schema = {"type": "integer"}
_BYTES: Schema = {"type": "string", "format": "binary"}
_TIME = 1795262400000


def _fields(title: str, required: Mapping[str, Schema], **optional: Schema) -> Schema:
    return {
        "type": "object",
        "title": title,
        "required": list(required),
        "properties": {**required, **optional},
    }


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _json(schema: Schema, example: Any, *statuses: int) -> AnswerDescription:
    content = {JSON: {"schema": schema, "example": example}}
    return AnswerDescription(content, statuses or (200,))


def _of(kind: type, example: Any, *statuses: int) -> AnswerDescription:
    return _json(inline_schema(kind), example, *statuses)


def _arrow() -> AnswerDescription:
    return AnswerDescription({ARROW: {"schema": _BYTES}})


def _done(message: str, *statuses: int) -> AnswerDescription:
    schema = _fields("Done", {"result": _TEXT, "message": _TEXT})
    return _json(schema, {"result": "OK", "message": message}, *statuses)


_NEXT = {"next": _or_null(_TEXT)}
_MISSING = {"missing": _list(inline_schema(Missing))}
_REPLICAS = {"replicas": _list(inline_schema(ReplicaSource))}
_POINT = {"timestamp": _COUNT, "val": {"anyOf": [_NUMBER, _TEXT]}}
_NAMES = {"metricID": _TEXT, "entityID": _TEXT}
_SERIES = _fields("SeriesItem", {**_NAMES, "values": _list(_fields("Value", _POINT))})
_NODE = {"node": _TEXT, "data": _list(_SERIES)}
_NODE_ITEM = _fields("NodeItem", _NODE, **{"from": _TEXT, "stale_ms": _COUNT})
_GET = _fields("GetAnswer", {"monitoring": _list(_NODE_ITEM)}, **_NEXT, **_MISSING)
_GET_EXAMPLE = {
    "monitoring": [
        {
            "node": "edge-1",
            "data": [
                {
                    "metricID": "metric1",
                    "entityID": "entity1",
                    "units": "V",
                    "values": [{"timestamp": _TIME, "val": 6.0}],
                }
            ],
        }
    ],
    "next": None,
}
_LISTED = _fields("ListItem", {"node": _TEXT, **_NAMES})
_LIST = _fields("ListAnswer", {"metric": _list(_LISTED)}, **_NEXT, **_REPLICAS, **_MISSING)
_LISTED_EXAMPLE = {"node": "edge-1", "metricID": "metric1", "entityID": "entity1", "units": "V"}
_END = '{"end":{"rows":1}}\n'
_ROW = '{"node":"edge-1","metric":"metric1","entity":"entity1","ts":1795262400000,"value":6.0}\n'
_LISTED_ROW = '{"node":"edge-1","metric":"metric1","entity":"entity1","units":"V"}\n'


def _rows(schema: Schema, example: Any, line: str) -> AnswerDescription:
    return AnswerDescription(
        {
            JSON: {"schema": schema, "example": example},
            LINES: {"schema": _TEXT, "example": line + _END},
            ARROW: {"schema": _BYTES},
        }
    )


_COLUMN = _fields("SqlColumn", {"name": _TEXT, "type": _TEXT})
_SQL = _fields("SqlAnswer", {"columns": _list(_COLUMN), "rows": _list(_list({}))}, **_MISSING)
_DELETED = _fields(
    "DeletionAnswer",
    {
        **{"result": _TEXT, "message": _TEXT, "points": _COUNT, "series_count": _COUNT},
        "series": _list(inline_schema(SeriesPoints)),
    },
    dry_run={"type": "boolean"},
    **_MISSING,
)
_DELETED_EXAMPLE = {
    "result": "OK",
    "message": "2 points of 1 series deleted",
    "points": 2,
    "series_count": 1,
    "series": [{"metricID": "metric1", "entityID": "entity1", "points": 2}],
}
_NODES = _fields("FogNode", {"hostname": _TEXT, "cluster_head": {"type": "boolean"}})
_POINTS: Mapping[str, AnswerDescription] = {
    "post_put": _done("1 points stored", 200, 202),
    "post_get": _rows(_GET, _GET_EXAMPLE, _ROW),
    "post_list": _rows(_LIST, {"metric": [_LISTED_EXAMPLE], "next": None}, _LISTED_ROW),
    "post_query": _json(
        _fields("QueryAnswer", {"value": _or_null(_NUMBER)}, **_REPLICAS, **_MISSING),
        {"value": 6.0},
    ),
    "post_query_parts": _of(AggregateState, {"count": 1, "sum": 6.0, "min": 6.0, "max": 6.0}),
    "post_nodes": _json(
        _fields("NodesAnswer", {"nodes": _list(_NODES)}),
        {"nodes": [{"hostname": "edge-1", "cluster_head": True}]},
    ),
    "delete_monitoring": _json(_DELETED, _DELETED_EXAMPLE),
    "post_sql": _rows(
        _SQL, {"columns": [{"name": "a", "type": "INTEGER"}], "rows": [[1]]}, '{"a":1}\n'
    ),
}

_RECORD = _fields("RecordValue", {"timestamp": _COUNT, "val": {}})
_KEY = _fields("KeyValues", {"key": _TEXT, "values": _list(_RECORD)})
_KEY_EXAMPLE = {"key": "load", "values": [{"timestamp": _TIME, "val": {"mean": 0.7}}]}


def _records(kind: str) -> AnswerDescription:
    schema = _fields("RecordAnswer", {kind: _list(_KEY)}, **_MISSING)
    return _json(schema, {kind: [_KEY_EXAMPLE]})


_SCHEMA_FIELDS = {"name": _TEXT, "schema": {"type": ["object", "boolean"]}, "indexed": _list(_TEXT)}
_SCHEMA = _fields("AppSchema", _SCHEMA_FIELDS)
_SCHEMA_EXAMPLE = {"name": "room", "schema": {"type": "object"}, "indexed": ["floor"]}
_ROUTES = _fields("RoutesValue", {"timestamp": _COUNT, "routes": _list(inline_schema(Route))})
_TABLES = _fields("NodeTables", {"node": _TEXT, "values": _list(_ROUTES)})
_TABLES_EXAMPLE = {
    "node": "edge-1",
    "values": [{"timestamp": _TIME, "routes": [{"destination": "default"}]}],
}
_RECORDS: Mapping[str, AnswerDescription] = {
    "post_analytics_put": _done("1 records stored"),
    "post_app_put": _done("1 records stored"),
    "post_analytics_get": _records("analytics"),
    "post_app_get": _records("application"),
    "post_app_query": _records("application"),
    "delete_analytics": _done("deleted"),
    "delete_app": _done("deleted"),
    "get_app_schemas": _json(
        _fields("Schemas", {"schemas": _list(_SCHEMA)}), {"schemas": [_SCHEMA_EXAMPLE]}
    ),
    "get_app_schemas_name": _json(_SCHEMA, _SCHEMA_EXAMPLE),
    "put_app_schemas_name": _json(_SCHEMA, _SCHEMA_EXAMPLE, 200, 201),
    "post_routing_put": _done("1 tables stored"),
    "post_routing_get": _json(
        _fields("RoutingAnswer", {"routing": _list(_TABLES)}, **_MISSING),
        {"routing": [_TABLES_EXAMPLE]},
    ),
}

_INFO = {
    **{"name": "raw", "fields": [{"name": "ts", "type": "int64"}], "first": 0, "head": 9},
    **{"frontier": _TIME, "epoch": 1, "attributes": {}, "late": 0, "lateness_ms": 1000},
}
_STATE = {"epoch": 1, "head": 9, "frontier": _TIME, "attributes": {}}
_EVENTS = AnswerDescription(
    {"text/event-stream": {"schema": _TEXT, "example": 'event: row\nid: 9\ndata: {"ts":1}\n\n'}}
)
_STREAMS: Mapping[str, AnswerDescription] = {
    "get_streams": _json(
        _fields("Streams", {"streams": _list(inline_schema(StreamInfo))}), {"streams": [_INFO]}
    ),
    "get_streams_name_info": _of(StreamInfo, _INFO),
    "put_streams_name": _of(StreamInfo, _INFO, 200, 201),
    "post_streams_name_claim": _of(WriterState, _STATE),
    "patch_streams_name": _of(WriterState, _STATE),
    "post_streams_name": _of(Appended, {"first": 0, "next": 9, "frontier": _TIME}),
    "get_streams_name": _arrow(),
    "get_streams_name_seek": _json(_fields("Place", {"number": _COUNT}), {"number": 9}),
    "get_streams_name_offset": _of(Offset, {"next": 9, "frontier": _TIME, "head": 9}),
    "get_streams_name_rows": _of(
        RowsPage, {"rows": [{"ts": _TIME}], "next": 9, "frontier": _TIME, "head": 9}
    ),
    "get_streams_name_events": _EVENTS,
    "post_streams_name_repair": _json(
        _fields("Repair", {"stream": _TEXT, "missing": _COUNT, "restored": _COUNT}),
        {"stream": "raw", "missing": 0, "restored": 9},
    ),
}

_CONFIG: Mapping[str, Any] = {
    "retention_ms": None,
    "streams": {},
    "most_bytes": None,
    "when_full": "evict",
}
_HEARTBEAT = {"site": "a", "node": "edge-1", "url": "http://edge-1:8300", "instance": "1f"}
_SITE = {"name": "a", "node": "edge-1", "url": "http://edge-1:8300"}
_COPY = {"id": "1f", "target": "cloud", "why": "a user requested it", "since": _TIME}
_REPLICATION = {
    **{"site": "a", "stability": 1.0, "copies": [_COPY], "replicas": [], "elsewhere": {}},
    **{"sites": [], "reads": []},
}
_BACKUP = {"id": "1f", "site": "a", "node": "edge-1", "cut": _TIME, "streams": []}
_DELETIONS: Schema = {
    "type": "object",
    "title": "BackupDeletions",
    "additionalProperties": inline_schema(StreamDeletions),
}
_PROGRESS = {"made": "1f", "store": "2e", "position": 9, "complete": True, "durable": True}
_CLUSTER = {
    **{"nodes": [{"name": "edge-1", "online": True}], "backups": 0, "partitions": 16, "copies": 1},
    **{"rebalancing": False, "lost": 0, "tolerates_a_failure": False, "refused": []},
}
_OPERATIONS: Mapping[str, AnswerDescription] = {
    "get_config": _of(Config, _CONFIG),
    "put_config": _of(Config, _CONFIG),
    "get_cluster": _of(Cluster, _CLUSTER),
    "get_status": _of(SiteStatus, {"site": "a", "node": "edge-1", "warnings": []}),
    "get_fabric": _of(Fabric, {"site": "a", "sites": [_SITE], "links": [], "forgotten": []}),
    "post_fabric_greet": _of(Heartbeat, _HEARTBEAT),
    "get_replication": _of(ReplicationState, _REPLICATION),
    "put_replication": _of(Copy, _COPY),
    "get_replication_restrictions": _of(Restrictions, {"fixed": [], "declared": []}),
    "put_replication_restrictions": _of(Restrictions, {"fixed": [], "declared": []}),
    "post_backups": _of(BackupCut, _BACKUP, 201),
    "get_backups_backup_parts_name": AnswerDescription(
        {"application/octet-stream": {"schema": _BYTES}}
    ),
    "get_backups_backup_series": AnswerDescription(
        {LINES: {"schema": _TEXT, "example": '{"metricID":"metric1","entityID":"entity1"}\n'}}
    ),
    "get_backups_backup_deletions": _json(_DELETIONS, {"raw": {"last": 0, "tombstones": []}}),
    "get_replication_feed": _arrow(),
    "get_replication_held": _of(ReplicaProgress, _PROGRESS),
    "post_replication_points": _arrow(),
    "post_replication_get": _json(
        _fields("ReplicaData", {}, node=_TEXT, data=_list(_SERIES)), {"node": "edge-1", "data": []}
    ),
}

_PROMETHEUS = _fields("PrometheusAnswer", {"status": _TEXT, "data": {}}, warnings=_list(_TEXT))
_PROMETHEUS_EXAMPLES: Mapping[str, Any] = {
    "query": {"resultType": "vector", "result": []},
    "query_range": {"resultType": "matrix", "result": []},
    "labels": ["__name__", "node"],
    "series": [{"__name__": "cpu", "node": "edge-1"}],
    "label_name_values": ["edge-1"],
    "metadata": {"cpu": [{"type": "unknown", "help": "", "unit": "percent"}]},
    "status_buildinfo": {"version": "2.42.0", "application": "Mistbow"},
}
_QUERIES = {
    f"{method}_api_v1_{name}": _json(_PROMETHEUS, {"status": "success", "data": example})
    for method in ("get", "post")
    for name, example in _PROMETHEUS_EXAMPLES.items()
}

ANSWERS: Mapping[str, AnswerDescription] = {
    **_POINTS,
    **_RECORDS,
    **_STREAMS,
    **_OPERATIONS,
    **_QUERIES,
}
"""Operation id -> the successful answer."""
