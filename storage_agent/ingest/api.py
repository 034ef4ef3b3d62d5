"""POST /api/v1/write (Prometheus), POST /write and /api/v2/write (Influx), as collectors send."""

import hashlib
from typing import Annotated

import msgspec
from fastapi import APIRouter, Header, Query, Request, Response

from mistbow.auth.rules import requires
from mistbow.clock import Clock
from mistbow.settings import AgentSettings
from storage_agent import metrics
from storage_agent.agent import Agent
from storage_agent.ingest import line_protocol, remote_write
from storage_agent.ingest.collecting import Collector
from storage_agent.ingest.unpacking import from_gzip, from_snappy, unsupported
from storage_agent.monitoring.api import check_key
from storage_agent.monitoring.bodies import PutBody

_WRITTEN = "X-Prometheus-Remote-Write-{}-Written"
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
    """Return the routes by which collectors write to an agent."""
    routes = APIRouter(tags=["other ways in"])
    _add_remote_write(routes, agent, settings)
    _add_line_protocol(routes, agent, settings, clock)
    return routes


def _add_remote_write(routes: APIRouter, agent: Agent, settings: AgentSettings) -> None:
    naming = remote_write.Naming(settings.remote_write_entity, settings.node)

    @routes.post(
        "/api/v1/write",
        summary="Prometheus remote write",
        status_code=204,
        openapi_extra=_PROTOBUF,
    )
    @requires("ingest", by_entity=True)
    async def write(
        request: Request,
        content_type: Annotated[str | None, Header()] = None,
        content_encoding: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Store the good points of the body; 400 names the bad ones: nothing is to be sent again.

        Takes the messages of remote write 1.0 and 2.0, packed by snappy. A repeat of the same body
        within ten minutes stores nothing again.
        """
        version = remote_write.version_of(content_type)
        if content_encoding != "snappy":
            raise unsupported("Content-Encoding", content_encoding, "Content-Encoding: snappy")
        packed = await request.body()
        collected = Collector(settings.max_points, agent.fits)
        unpacked = from_snappy(packed, settings.max_body_bytes)
        beside = remote_write.collect(unpacked, version, naming, collected)
        await agent.put(
            PutBody(collected.points), _key(f"remote-write-{version}", packed, collected)
        )
        collected.count("remote write")
        metrics.SKIPPED.labels("stale marker").inc(beside.stale)
        metrics.SKIPPED.labels("NaN").inc(beside.nan)
        metrics.SKIPPED.labels("exemplar").inc(beside.exemplars)
        # What is skipped is taken: a sender that heard of 0 would hold the request for failed.
        written = len(collected.points) + beside.stale + beside.nan
        headers = {
            _WRITTEN.format("Samples"): str(written),
            _WRITTEN.format("Histograms"): "0",
            _WRITTEN.format("Exemplars"): "0",
        }
        if (problem := collected.problem()) is not None:
            return _json(problem.body(), headers)
        return Response(status_code=204, headers=headers)


def _add_line_protocol(
    routes: APIRouter, agent: Agent, settings: AgentSettings, clock: Clock
) -> None:
    # What else Influx takes (a database, an organisation and so on) is not looked at.
    @requires("ingest", by_entity=True)
    async def write(
        request: Request,
        precision: Annotated[str | None, Query(description="unit of times; ns if absent")] = None,
        content_encoding: Annotated[str | None, Header()] = None,
        idempotency_key: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Store the good points of the body; 400 names the bad ones: nothing is to be sent again.

        A body whose lines all have times of their own may be repeated within ten minutes: it is not
        stored again.
        """
        check_key(idempotency_key)
        unit = line_protocol.unit_of(precision)
        body = await request.body()
        if content_encoding == "gzip":
            body = from_gzip(body, settings.max_body_bytes)
        elif content_encoding not in (None, "identity"):
            raise unsupported(
                "Content-Encoding", content_encoding, "Content-Encoding: gzip, or none"
            )
        collected = Collector(settings.max_points, agent.fits)
        reading = line_protocol.Reading(settings.influx_entity, settings.node, clock(), unit)
        timed = line_protocol.collect(body, reading, collected)
        if idempotency_key is None and timed:
            idempotency_key = _key(f"lines-{unit}", body, collected)
        await agent.put(PutBody(collected.points), idempotency_key)
        collected.count("line protocol")
        if not collected.refusals:
            return Response(status_code=204)
        # In Influx's own form: collectors know by its first words that some of it is stored.
        named = "; ".join(str(refusal) for refusal in collected.refusals)
        everything = collected.refused + len(collected.points)
        told = f"partial write: {collected.refused} of {everything} points are not stored: {named}"
        return _json({"error": told, "code": "invalid", "message": told})

    for path in ("/write", "/api/v2/write"):
        routes.post(path, summary="Influx line protocol", status_code=204, openapi_extra=_LINES)(
            write
        )

    @routes.get("/ping", summary="Influx's sign of life", status_code=204)
    @routes.head("/ping", include_in_schema=False)
    @requires("ingest", by_entity=True)
    async def ping() -> Response:
        return Response(status_code=204)


def _key(way: str, body: bytes, collected: Collector) -> str:
    """Return by what a repeat of a body is known: one of which as much is stored."""
    return f"{way}/{hashlib.sha256(body).hexdigest()}/{len(collected.points)}"


def _json(body: object, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(body), 400, headers, media_type="application/json")
