"""Heartbeats: the messages that the agents of different sites exchange every second."""

from typing import Annotated

import msgspec
from msgspec import Meta

from mistbow.errors import InvalidRequestError
from mistbow.site_names import is_site_name
from storage_agent.addresses import is_service_url

_Text = Annotated[str, Meta(min_length=1, max_length=500)]


class PeerReport(msgspec.Struct, frozen=True, kw_only=True):
    """A peer that a heartbeat lists.

    ``reached``: whether the sender of the heartbeat has a direct link to the peer.
    """

    site: _Text
    node: _Text
    url: _Text
    reached: bool
    latency_ms: float | None = None


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, rename={"peers": "knows"}):
    """The heartbeat of an agent: its site, its address and its peers.

    ``instance``: the id of the agent's process. ``version``: the version of the sender's reports
    about its peers. ``since``: ``peers`` lists only reports that changed after this version; 0: all
    reports. ``seen``, ``seen_instance``: the version of the receiver's reports that the sender has,
    and the instance that sent these reports. ``now``: the sender's time (ms), in answers only; 0 in
    answers of older versions. ``wants_all``: whether the sender needs all reports of the receiver
    if it has none; else changes suffice.
    """

    site: _Text
    node: _Text
    url: _Text
    instance: _Text
    peers: Annotated[tuple[PeerReport, ...], Meta(max_length=10_000)] = ()
    version: Annotated[int, Meta(ge=0)] = 0
    since: Annotated[int, Meta(ge=0)] = 0
    seen: Annotated[int, Meta(ge=0)] = 0
    seen_instance: Annotated[str, Meta(max_length=500)] = ""
    now: int = 0
    wants_all: bool = True


HEARTBEAT = msgspec.json.Decoder(Heartbeat)


def check_heartbeat(heartbeat: Heartbeat) -> None:
    """Raise ``InvalidRequestError`` if a site name or an address is malformed."""
    named = [(heartbeat.site, heartbeat.url), *((each.site, each.url) for each in heartbeat.peers)]
    for site, url in named:
        if not is_site_name(site):
            raise InvalidRequestError(f"{site!r} is not a valid site name")
        if not is_service_url(url):
            raise InvalidRequestError(f"{url!r} is not an address of the form http://HOST:PORT")
