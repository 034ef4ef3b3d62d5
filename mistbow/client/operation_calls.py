"""Calls to operate an agent; each function builds the call that one client method sends."""

from collections.abc import Sequence
from typing import Unpack
from urllib.parse import quote

from mistbow.client.operation_model import (
    Cluster,
    Config,
    ConfigChange,
    ConfigFields,
    Copy,
    ReplicationState,
    Restriction,
    Restrictions,
    SeriesFilter,
    SiteStatus,
)
from mistbow.client.transport import Call, get_json, json_of, no_answer, send_json

_EVERYTHING = SeriesFilter()


def config() -> Call[Config]:
    """Return the agent's configuration: the retention and the maximum size of its streams."""
    return get_json("/config", Config)


def change_config(**change: Unpack[ConfigFields]) -> Call[Config]:
    """Change fields of the configuration, at once and durably; return the new configuration."""
    return send_json("PUT", "/config", ConfigChange(**change), json_of(Config))


def status() -> Call[SiteStatus]:
    """Return the status of the site's agent: its warnings, its disk, and its spool."""
    return get_json("/status", SiteStatus)


def cluster() -> Call[Cluster]:
    """Return the state of the site's Ignite, with the streams that are refused after a loss of
    rows.
    """
    return get_json("/cluster", Cluster)


def replication() -> Call[ReplicationState]:
    """Return the copies (with targets and reasons), the replicas, and the replication policy's
    inputs.
    """
    return get_json("/replication", ReplicationState)


def request_copy(
    target: str,
    stream: str = "raw",
    series: SeriesFilter = _EVERYTHING,
    *,
    move: bool = False,
) -> Call[Copy]:
    """Request a copy of a stream, or of some of its series, at another site; return the copy.

    ``move``: whether to offload the points: points that are old enough are deleted at this site
    after the target has stored them.
    """
    body = {"target": target, "stream": stream, "filter": series, "move": move}
    return send_json("PUT", "/replication", body, json_of(Copy))


def withdraw_copy(copy_id: str, target: str | None = None, *, force: bool = False) -> Call[None]:
    """Withdraw a copy at the site ``target``; None: at all targets.

    Raises ``NotFoundError`` if the copy does not exist. Raises ``ConflictError`` if data would be
    lost and ``force`` is not set.
    """
    path = f"/replication/copies/{quote(copy_id, safe='')}"
    params = {"force": str(force).lower()} | ({} if target is None else {"target": target})
    return Call("DELETE", path, no_answer, params=params, repeatable=True)


def delete_replica(of: str, copy_id: str, *, force: bool = False) -> Call[None]:
    """Delete a replica at the agent's site; the source of the replica is the lost site ``of``.

    Raises ``NotFoundError`` if the replica does not exist. Raises ``ConflictError`` if ``force`` is
    False and no other replica may exist.
    """
    path = f"/replication/replicas/{quote(of, safe='')}/{quote(copy_id, safe='')}"
    return Call("DELETE", path, no_answer, params={"force": str(force).lower()})


def forget_site(name: str) -> Call[None]:
    """Remove a site that no longer exists from the fabric.

    Raises ``NotFoundError`` if the site is unknown. Raises ``ConflictError`` if the site is
    reachable, if another site stores replicas of the site, or if another site has copies at the
    site.
    """
    return Call("DELETE", f"/fabric/sites/{quote(name, safe='')}", no_answer)


def restrictions() -> Call[Restrictions]:
    """Return the restrictions: rules that limit which sites and regions may store copies."""
    return get_json("/replication/restrictions", Restrictions)


def restrict(rules: Sequence[Restriction]) -> Call[Restrictions]:
    """Declare restrictions in place of earlier declared restrictions; return all restrictions."""
    return send_json("PUT", "/replication/restrictions", rules, json_of(Restrictions))
