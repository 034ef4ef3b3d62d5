"""Ingestion over HTTP: /api/v1/write (Prometheus), /write and /api/v2/write (Influx)."""

import hashlib
from functools import partial
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Header, Query, Request, Response

from mistbow.auth.rules import requires
from mistbow.clock import Clock
from mistbow.errors import (
    ConflictError,
    InvalidRequestError,
    ReusedKeyError,
    StorageFullError,
    UnsupportedError,
)
from mistbow.http.limits import count_body
from mistbow.openapi import raises
from mistbow.timestamps import Timestamps
from storage_agent import metrics
from storage_agent.agent.agent import Agent
from storage_agent.http.decode import decode_beside
from storage_agent.http.idempotency import IdempotencyKey, request_key
from storage_agent.http.points import PutBody
from storage_agent.http.responses import json_response
from storage_agent.ingest import line_protocol, remote_write
from storage_agent.ingest.decompression import (
    decompress_gzip,
    decompress_snappy,
    parse_encoding,
    snappy_size,
    unsupported_header,
)
from storage_agent.ingest.entity_label import EntityLabel
from storage_agent.ingest.point_batch import PointBatch
from storage_agent.request_key import RequestKey
from storage_agent.settings import AgentSettings
from storage_agent.work_threads import ingest_beside

_WRITTEN_HEADER = "X-Prometheus-Remote-Write-{}-Written"
_PROTOBUF = {
    "requestBody": {
        "required": True,
        "content": {"application/x-protobuf": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_LINES = {
    "requestBody": {
        "required": True,
        "content": {
            "text/plain": {
                "schema": {"type": "string"},
                "example": "weather,host=mast-1,side=north temperature=21.5 1795262400000000000",
            }
        },
    }
}


def ingest_routes(agent: Agent, settings: AgentSettings, clock: Clock) -> APIRouter:
    """Return the routes by which collectors such as Prometheus send points to an agent."""
    routes = APIRouter(tags=["ingest protocols"], dependencies=[Depends(_reject_site)])
    _add_remote_write(routes, agent, settings)
    _add_line_protocol(routes, agent, settings, clock)
    return routes


async def _reject_site(request: Request) -> None:
    """Raise ``InvalidRequestError`` if the URL names a site: the points are stored at this one."""
    if "site" in request.query_params:
        raise InvalidRequestError(
            "site: the paths of collectors store points at the agent's own site, and nothing was "
            "stored",
            hint="Send to the agent of that site, or by POST /put?site=NAME.",
        )


def _add_remote_write(routes: APIRouter, agent: Agent, settings: AgentSettings) -> None:
    entity = EntityLabel(settings.remote_write_entity, settings.node)
    times = Timestamps(settings.timestamp_unit)

    @routes.post(
        "/api/v1/write",
        summary="Prometheus remote write",
        status_code=204,
        openapi_extra=_PROTOBUF,
    )
    @requires("ingest", by_entity=True)
    @raises(ConflictError, StorageFullError, UnsupportedError)
    async def write(
        request: Request,
        content_type: Annotated[str | None, Header()] = None,
        content_encoding: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Store the valid points of the body.

        If points are rejected, the status is 400, and the answer lists the rejected points; do not
        retry the request. Remote write 1.0 and 2.0 are accepted, compressed by snappy. A repeat of
        the same body within ten minutes stores no point again.
        """
        version = remote_write.parse_version(content_type)
        if parse_encoding(content_encoding) != "snappy":
            raise unsupported_header(
                "Content-Encoding", content_encoding, "Content-Encoding: snappy"
            )
        body = await request.body()
        batch = PointBatch(settings.max_points, agent.accepts_attributes, times)
        size = snappy_size(body, settings.max_body_bytes)
        count_body(request.scope, size)
        exemplars = await decode_beside(
            size,
            lambda: remote_write.parse_request(decompress_snappy(body), version, entity, batch),
        )
        await agent.put(PutBody(batch.points), _key(f"remote-write-{version}", body, batch))
        batch.count("remote write")
        metrics.SKIPPED_ITEMS.labels("exemplar").inc(exemplars)
        headers = {
            _WRITTEN_HEADER.format("Samples"): str(len(batch.points)),
            _WRITTEN_HEADER.format("Histograms"): "0",
            _WRITTEN_HEADER.format("Exemplars"): "0",
        }
        if (problem := batch.problem()) is not None:
            return _bad_request(problem.body(), headers)
        return Response(status_code=204, headers=headers)


def _add_line_protocol(
    routes: APIRouter, agent: Agent, settings: AgentSettings, clock: Clock
) -> None:
    entity = EntityLabel(settings.influx_entity, settings.node)
    times = Timestamps(settings.timestamp_unit)

    # Influx's other parameters (a database, an organisation and so on) are ignored.
    @requires("ingest", by_entity=True)
    @raises(ConflictError, ReusedKeyError, StorageFullError, UnsupportedError)
    async def write(
        request: Request,
        precision: Annotated[str | None, Query(description="unit of times; ns if absent")] = None,
        content_encoding: Annotated[str | None, Header()] = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Store the valid points of the body.

        If points are rejected, the status is 400, and the answer lists the rejected points; do not
        retry the request.

        If all lines of a body have timestamps, a repeat of the body within ten minutes stores no
        point again.
        """
        unit = line_protocol.parse_precision(precision)
        body = await request.body()
        encoding = parse_encoding(content_encoding)
        if encoding in ("gzip", "x-gzip"):
            body = await ingest_beside(partial(decompress_gzip, body, settings.max_body_bytes))
            count_body(request.scope, len(body))
        elif encoding not in ("", "identity"):
            raise unsupported_header(
                "Content-Encoding", content_encoding, "Content-Encoding: gzip, or none"
            )
        key = request_key(idempotency_key, body, str(unit))
        batch = PointBatch(settings.max_points, agent.accepts_attributes, times)
        line_format = line_protocol.LineFormat(entity, clock(), unit)
        timed = await decode_beside(
            len(body), lambda: line_protocol.parse_lines(body, line_format, batch)
        )
        if key is None and timed:
            key = _key(f"lines-{unit}", body, batch)
        await agent.put(PutBody(batch.points), key)
        batch.count("line protocol")
        if not batch.rejected_points:
            return Response(status_code=204)
        # Influx's own form: collectors recognize a partial write by the first words.
        rejections = "; ".join(str(each) for each in batch.rejected_points)
        total = batch.rejected + len(batch.points)
        message = f"partial write: {batch.rejected} of {total} points are not stored: {rejections}"
        return _bad_request({"error": message, "code": "invalid", "message": message})

    for path in ("/write", "/api/v2/write"):
        routes.post(path, summary="Influx line protocol", status_code=204, openapi_extra=_LINES)(
            write
        )

    @routes.get("/ping", summary="Influx's health check", status_code=204)
    @routes.head("/ping", include_in_schema=False)
    @requires("ingest", by_entity=True)
    async def ping() -> Response:
        return Response(status_code=204)


def _key(protocol: str, body: bytes, batch: PointBatch) -> RequestKey:
    """Return the idempotency key of a body: protocol, hash of the body, number of valid points."""
    digest = hashlib.sha256(body).hexdigest()
    return RequestKey.of_body(protocol, f"{digest}/{len(batch.points)}")


def _bad_request(body: object, headers: dict[str, str] | None = None) -> Response:
    return json_response(msgspec.json.encode(body), 400, headers)
