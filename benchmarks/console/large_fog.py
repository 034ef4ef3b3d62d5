"""A source of views for the console: a fog of many sites, and an insight with many keys.

It serves the files of the console, and answers as the API of an enabler with figures that change
every second. So a benchmark measures the browser, and needs no machines for the sites.
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from starlette.routing import Mount

from analytics.fog_models import FogChanges, FogSnapshot
from analytics_enabler.live.fog_history import CHECKPOINT, Row, changes_in, entries_of
from console.pages import pages
from tests.command_line.test_top import FRAGMENT, NODE, SITE, deployment, health

SITES = 300
LINKS_PER_SITE = 6
KEYS = 2000
CHANGED_SITES = 20
"""The number of sites whose figures change each second."""

DEPLOYMENT = "d-1"
INSIGHT = "a"
_HISTORY = 4
"""The number of results of each key that are stored."""

_SESSION = {
    **{"token_required": False, "name": "token of the fog", "scopes": ["admin"]},
    **{"entity_prefix": "", "signatures": None, "expires_at": None, "domain": "all"},
    "version": "bench",
}


def now() -> int:
    return int(time.time() * 1000)


def fog() -> dict[str, Any]:
    """Return the view of a fog in which each site sends panes to one of five others."""
    draw = random.Random(1)
    names = [f"site-{n}" for n in range(SITES)]
    nodes = [{**NODE, "name": f"worker-{n}", "site": name} for n, name in enumerate(names)]
    states = [
        {
            **{**SITE, "name": name, "node": name, "workers": [f"worker-{n}"], "problems": []},
            "reachable": n % 60 != 7,
        }
        for n, name in enumerate(names)
    ]
    links = [
        {
            **{"source": name, "target": target, "latency_ms": draw.uniform(1, 150)},
            **{"bandwidth_mbps": 100.0, "loss": 0.0},
        }
        for name in names
        for target in draw.sample(names, LINKS_PER_SITE)
    ]
    fragments = [
        {
            **{**FRAGMENT, "fragment": f"all.fair.{n}", "node": f"worker-{n}", "site": name},
            "kind": "merge" if n < 5 else "partial",
        }
        for n, name in enumerate(names)
    ]
    flows = [
        {
            **{"source": name, "target": names[n % 5], "kind": "panes", "group": "all.fair"},
            "bytes_per_s": 900.0,
        }
        for n, name in enumerate(names)
    ]
    return {
        **{"sites": names, "nodes": nodes, "links": links, "sources": [], "at": now()},
        **{"site_states": states, "fragments": fragments, "flows": flows},
    }


def history_rows(view: dict[str, Any], start: int) -> list[Row]:
    """Return the stored history of an hour from ``start`` (ms) on; a fragment moves every 5 s."""
    entries = entries_of(FogSnapshot.model_validate(view))
    texts = {key: json.dumps(entry) for key, entry in entries.items()}
    fragments = [(key, entry) for key, entry in entries.items() if key.startswith("fragments/")]
    rows: list[Row] = []
    for n, at in enumerate(range(start, start + 3_600_000, 5000)):
        if n % 360 == 0:
            rows += [(at, CHECKPOINT, "{}"), *((at, *each) for each in texts.items())]
        key, entry = fragments[n % len(fragments)]
        rows.append((at, key, json.dumps({**entry, "node": f"worker-{n % SITES}-moved"})))
    return rows


def results(ts: int) -> list[dict[str, Any]]:
    """Return a result of each key at a time."""
    return [
        {
            **{"insight": INSIGHT, "key": {"entityID": f"bus-{n}"}, "ts": ts},
            **{"value": (n * 37 + ts // 1000) % 1000 / 7, "values": None, "low": None},
            **{"high": None, "confidence": None, "text": None, "revision": 0},
            **{"computed_at": ts + 900, "missing": [], "deployment_id": DEPLOYMENT},
        }
        for n in range(KEYS)
    ]


def create_app() -> FastAPI:
    """Return the application."""
    app, view = FastAPI(), fog()
    begin = now() - 3_600_000
    stored_rows = history_rows(view, begin)
    shown = deployment() | {"placement": [], "decisions": [], "ended": [], "domain": "all"}

    @app.get("/api/session")
    def session() -> Any:
        return _SESSION

    @app.get("/api/insights/{_id}")
    def deployed(_id: str) -> Any:
        return shown

    @app.get("/api/insights/{_id}/results")
    def stored(_id: str) -> Any:
        last = now() // 1000 * 1000
        ticks = range(last - 1000 * (_HISTORY - 1), last + 1000, 1000)
        return {"results": [each for ts in ticks for each in results(ts)], "next": ""}

    @app.get("/api/fog/history")
    def history(limit: int = 1000, newest: bool = False) -> FogChanges:
        return changes_in(stored_rows, begin, limit, newest=newest)

    @app.get("/api/fog")
    def snapshot() -> Any:
        return view

    @app.get("/api/metrics")
    def metrics() -> Any:
        return {"metrics": [], "next": None, "total": 0, "missing_sites": []}

    @app.get("/api/events")
    def events(topics: str = "", insights: str = "") -> StreamingResponse:
        return StreamingResponse(_events(view, topics, insights), media_type="text/event-stream")

    # The start page matches all paths, so it is last.
    for path, served in sorted(pages().items(), reverse=True):
        app.router.routes.append(Mount("" if path == "/" else path, served))
    return app


async def _events(view: dict[str, Any], topics: str, insights: str) -> AsyncIterator[bytes]:
    yield _event("hello", {"at": now(), "version": "bench", "resumed": False})
    if "health" in topics:
        yield _event("health", health())
    if "fog" in topics:
        yield _event("fog", view)
    draw = random.Random(2)
    while True:
        await asyncio.sleep(1)
        if "fog" in topics:
            nodes = [
                {**each, "cores_free": round(draw.uniform(0, 4), 1)}
                for each in draw.sample(view["nodes"], CHANGED_SITES)
            ]
            yield _event("fog_changed", {"at": now(), "nodes": nodes, "removed": {}})
        if insights:
            last = now() // 1000 * 1000
            found = results(last)
            for n in range(0, len(found), 500):
                yield _event("results", {"results": found[n : n + 500]})


def _event(name: str, data: Any) -> bytes:
    return f"event: {name}\nid: {now()}\ndata: {json.dumps(data)}\n\n".encode()
