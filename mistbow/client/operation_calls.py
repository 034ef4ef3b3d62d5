"""The requests about how an agent keeps its data, each built by one function, for both clients."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from mistbow.client.operation_model import (
    Cluster,
    Config,
    ConfigChange,
    Copy,
    ReplicationState,
    Restrictions,
    Rule,
    SeriesFilter,
)
from mistbow.client.transport import Call

T = TypeVar("T")


def config() -> Call[Config]:
    """Ask for the configuration."""
    return _get("/config", Config)


def change_config(change: ConfigChange) -> Call[Config]:
    """Change the configuration; doing it twice does no more."""
    return _put("/config", change, Config)


def cluster() -> Call[Cluster]:
    """Ask how the site's Ignite is."""
    return _get("/cluster", Cluster)


def replication() -> Call[ReplicationState]:
    """Ask what is copied where."""
    return _get("/replication", ReplicationState)


def ask_copy(target: str, stream: str, wanted: SeriesFilter, *, move: bool) -> Call[Copy]:
    """Ask for a copy; asking twice makes one."""
    body = {"target": target, "stream": stream, "filter": wanted, "move": move}
    return _put("/replication", body, Copy)


def withdraw_copy(copy_id: str, target: str | None, *, force: bool) -> Call[None]:
    """Withdraw a copy."""
    path = f"/replication/copies/{quote(copy_id, safe='')}"
    params = {"force": str(force).lower()} | ({} if target is None else {"target": target})
    return Call("DELETE", path, lambda _: None, params=params, repeatable=True)


def delete_replica(of: str, copy_id: str, *, force: bool) -> Call[None]:
    """Delete a replica."""
    path = f"/replication/replicas/{quote(of, safe='')}/{quote(copy_id, safe='')}"
    return Call("DELETE", path, lambda _: None, params={"force": str(force).lower()})


def forget_site(name: str) -> Call[None]:
    """Forget a site."""
    return Call("DELETE", f"/fabric/sites/{quote(name, safe='')}", lambda _: None)


def restrictions() -> Call[Restrictions]:
    """Ask what may not be copied where."""
    return _get("/replication/restrictions", Restrictions)


def restrict(rules: Sequence[Rule]) -> Call[Restrictions]:
    """Declare what may not be copied where."""
    return _put("/replication/restrictions", rules, Restrictions)


def _get(path: str, kind: type[T]) -> Call[T]:
    return Call("GET", path, _json(kind), repeatable=True)


def _put(path: str, body: Any, kind: type[T]) -> Call[T]:
    headers = {"Content-Type": "application/json"}
    content = msgspec.json.encode(body)
    return Call("PUT", path, _json(kind), content=content, headers=headers, repeatable=True)


def _json(kind: type[T]) -> Callable[[httpx.Response], T]:
    return lambda response: msgspec.json.decode(response.content, type=kind)
