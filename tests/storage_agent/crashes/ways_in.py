"""One request for each way by which data enters an agent over HTTP."""

import itertools
from collections.abc import Callable, Mapping
from functools import partial

import cramjam
import httpx
import pyarrow as pa

from mistbow.clock import system_clock
from storage_agent.ingest.protocol import remote_v1_pb2 as v1

_TIMEOUT_S = 30.0
_ITEMS = 200
_TEXT = "x" * 1000
_numbers = itertools.count()

Way = Callable[[], httpx.Response]
"""Sends a request that stores something new; returns the response."""


def ways_in(url: str, headers: Mapping[str, str]) -> dict[str, Way]:
    """Return the ways into the agent at ``url`` by name; ``headers`` has the token."""
    post = partial(_post, url, headers)
    return {
        "/put": lambda: post("/put", json={"monitoring": _points()}),
        "/write": lambda: post("/write?precision=ms", content=_lines()),
        "/api/v2/write": lambda: post("/api/v2/write?precision=ms", content=_lines()),
        "/api/v1/write": lambda: post(
            "/api/v1/write",
            content=_remote_write(),
            headers={"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"},
        ),
        "/app/put": lambda: post("/app/put", json={"application": _records()}),
        "/analytics/put": lambda: post("/analytics/put", json={"analytics": _records()}),
        "/routing/put": lambda: post("/routing/put", json={"routing": _tables()}),
        "/streams": partial(_append, url, headers),
    }


def _post(
    url: str,
    common: Mapping[str, str],
    path: str,
    headers: Mapping[str, str] | None = None,
    **body: object,
) -> httpx.Response:
    merged = {**common, **(headers or {})}
    return httpx.post(url + path, headers=merged, timeout=_TIMEOUT_S, **body)  # type: ignore[arg-type]


def _append(url: str, headers: Mapping[str, str]) -> httpx.Response:
    """Create a stream if it does not exist, and append rows."""
    rows = pa.record_batch({"key": [f"k{next(_numbers)}"], "text": [_TEXT * 50]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    body = sink.getvalue().to_pybytes()
    created = httpx.put(f"{url}/streams/notes", content=body, headers=headers, timeout=_TIMEOUT_S)
    if created.is_error:
        return created
    return httpx.post(f"{url}/streams/notes", content=body, headers=headers, timeout=_TIMEOUT_S)


def _points() -> list[dict[str, object]]:
    now = system_clock()
    return [
        {"entityID": f"e{n}", "metricID": "ways", "val": next(_numbers), "timestamp": now}
        for n in range(_ITEMS)
    ]


def _lines() -> bytes:
    now = system_clock()
    lines = (f"ways,host=h{n} value={next(_numbers)} {now}\n" for n in range(_ITEMS))
    return "".join(lines).encode()


def _remote_write() -> bytes:
    now = system_clock()
    series = [
        v1.TimeSeries(
            labels=[
                v1.Label(name="__name__", value="ways"),
                v1.Label(name="instance", value=f"i{n}"),
            ],
            samples=[v1.Sample(value=next(_numbers), timestamp=now)],
        )
        for n in range(_ITEMS)
    ]
    message = v1.Request(timeseries=series)
    return bytes(cramjam.snappy.compress_raw(message.SerializeToString()))


def _records() -> list[dict[str, object]]:
    return [
        {"key": f"k{next(_numbers)}", "val": _TEXT, "timestamp": system_clock()}
        for _ in range(_ITEMS)
    ]


def _tables() -> list[dict[str, object]]:
    routes = [{"destination": f"10.{n}.0.0/16", "gateway": "10.0.0.1"} for n in range(_ITEMS)]
    return [{"node": f"n{next(_numbers)}", "routes": routes}]
