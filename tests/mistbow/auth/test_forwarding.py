"""Whom a service can act for: an edge names callers and sites that are not its own."""

from datetime import timedelta

import pytest

from mistbow.auth.authentication import (
    CALLER,
    CALLER_SITE,
    ENTITY_PREFIX,
    SIGNATURES,
    caller_headers,
    restricted,
)
from mistbow.auth.callers import FOG, Caller, on_behalf_of, service_caller
from mistbow.auth.credential import Credential, Kind
from mistbow.clock import utc_now
from mistbow.errors import OutOfReachError
from mistbow.service import _current_token

HERE = "cloud"


def service(kind: Kind, site: str, *reach: str) -> Caller:
    end = utc_now() + timedelta(days=1)
    return service_caller(Credential("x", kind, site, "0" * 32, "0" * 64, end, reach), HERE)


def forwarded(caller: Caller, **headers: str) -> Caller:
    return restricted(
        caller, {name.lower().encode(): text.encode() for name, text in headers.items()}
    )


@pytest.mark.parametrize("header", [CALLER, ENTITY_PREFIX, SIGNATURES])
def test_edge_that_forwards_keeps_the_limits_of_a_peer(header: str) -> None:
    caller = forwarded(service("agent", "north"), **{header: "x"})
    assert caller.scopes == {"replicate"}
    assert caller.is_peer
    caller.check_site("north", "the copies for north")
    with pytest.raises(OutOfReachError):
        caller.check_site("south", "the copies for south")


@pytest.mark.parametrize("more", [{}, {CALLER: "person"}])
def test_edge_does_not_act_for_another_site(more: dict[str, str]) -> None:
    edge = service("agent", "north")
    assert not forwarded(edge, **{CALLER_SITE: "south"}, **more).scopes
    assert forwarded(edge, **{CALLER_SITE: "north"}, **more).is_peer


def test_agent_that_reaches_this_site_forwards_for_peers_and_people() -> None:
    core = service("agent", "core", "*")
    peer = forwarded(core, **{CALLER_SITE: "south", CALLER: "person", ENTITY_PREFIX: "bus-"})
    assert (peer.is_peer, peer.home, peer.entity_prefix) == (True, "south", "bus-")
    with pytest.raises(OutOfReachError):
        peer.check_site("north", "the copies for north")
    person = forwarded(core, **{CALLER: "person", SIGNATURES: ""})
    assert (person.home, person.has_scope("admin"), person.has_scope("join")) == (None, True, False)


def test_agent_that_reaches_some_sites_does_not_forward_administration() -> None:
    some = forwarded(service("agent", "controller", HERE, "south"), **{CALLER: "person"})
    assert (some.has_scope("read"), some.has_scope("admin")) == (True, False)


@pytest.mark.parametrize("kind", ["worker", "enabler", "monitor"])
def test_other_services_of_an_edge_forward_nothing(kind: Kind) -> None:
    edge = service(kind, "north")
    for headers in ({CALLER: "person"}, {CALLER_SITE: "north"}, {CALLER_SITE: "south"}):
        assert not forwarded(edge, **headers).scopes


def test_callers_that_an_edge_names_share_the_limits_of_its_site() -> None:
    edge, core = service("agent", "north"), service("agent", "core", "*")
    names = set()
    for headers in ({CALLER: "person"}, {CALLER: "of the fog"}, {CALLER_SITE: "south"}):
        with on_behalf_of(forwarded(edge, **headers)):
            names.add(_current_token())
    assert names == {"of the site north"}
    with on_behalf_of(forwarded(core, **{CALLER: "person"})):
        assert _current_token() == "person"


def test_limits_of_an_edge_stay_when_the_core_passes_its_request_on() -> None:
    edge, core = service("agent", "north"), service("agent", "core", "*")
    for name in ("person", FOG.name):
        sent = caller_headers(forwarded(edge, **{CALLER: name}))
        peer = forwarded(core, **sent)
        assert (peer.is_peer, peer.home) == (True, "north")
