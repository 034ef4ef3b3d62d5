"""Reports of a stolen edge about links that it does not have, in a fog with identities."""

from collections.abc import Callable
from datetime import timedelta

import httpx
import msgspec
import pytest

from mistbow.auth.credential import Credential
from mistbow.auth.fog_keys import FogKeys
from mistbow.client.credentials import ServiceCredentials
from mistbow.clock import system_clock, utc_now
from mistbow.errors import ConflictError
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.heartbeat import Heartbeat, PeerReport
from storage_agent.settings import AgentSettings
from tests.support.conditions import aeventually

EDGE_URL = "http://127.0.0.1:9"
SILENT_URL = "http://127.0.0.1:1"


def membership_beside_an_edge(
    settings: AgentSettings,
    fog: FogKeys,
    reach: tuple[str, ...],
    answer: Callable[[httpx.Request], httpx.Response],
) -> FabricMembership:
    """Return a membership with an identity; ``answer``: of the edge, which has proven ``reach``."""
    end = utc_now() + timedelta(days=1)
    own = fog.issue("core", "agent", settings.site, end, ("*",))
    given = settings.model_copy(update={"token": None, "identity_file": own})
    membership = FabricMembership(given, system_clock)
    client = membership.network.client(EDGE_URL)
    client._transport, credentials = httpx.MockTransport(answer), client.auth
    assert isinstance(credentials, ServiceCredentials)
    credentials.peer = Credential("edge", "agent", "edge", "0" * 32, "0" * 64, end, reach)
    client._auth = None
    return membership


def heartbeat_of_edge(*reached: str) -> Heartbeat:
    reports = (PeerReport(site=each, node="n", url=SILENT_URL, reached=True) for each in reached)
    return Heartbeat(
        site="edge", node="n", url=EDGE_URL, instance="e", version=1, peers=tuple(reports)
    )


@pytest.mark.parametrize(
    ("reach", "is_reachable"),
    [((), False), (("other",), False), (("cloud",), True), (("*",), True)],
)
async def test_site_is_reachable_only_through_a_peer_that_has_rights_there(
    tmp_path_factory: pytest.TempPathFactory,
    fog_keys: FogKeys,
    reach: tuple[str, ...],
    is_reachable: bool,
) -> None:
    sent = heartbeat_of_edge("cloud")
    home = tmp_path_factory.mktemp("home")
    membership = membership_beside_an_edge(
        AgentSettings(home=home, node="n1", site="core"),
        fog_keys,
        reach,
        lambda _: httpx.Response(200, content=msgspec.json.encode(sent)),
    )

    async def answers() -> bool:
        return membership.peers.reachable("edge")

    membership.receive_heartbeat(sent)  # the membership answers by a heartbeat of its own
    await aeventually(answers)
    membership.receive_heartbeat(sent)
    [site] = [each for each in membership.fabric().sites if each.name == "cloud"]
    assert site.reachable is is_reachable
    assert [each.site for each in membership.peers.next_hops("cloud")] == ["edge"] * is_reachable
    if is_reachable:
        with pytest.raises(ConflictError, match="cloud can be reached"):
            membership.check_unreachable("cloud")
    else:
        membership.check_unreachable("cloud")
    await membership.close()


async def test_new_identity_of_a_peer_changes_which_sites_are_reachable(
    tmp_path_factory: pytest.TempPathFactory, fog_keys: FogKeys
) -> None:
    settings = AgentSettings(home=tmp_path_factory.mktemp("home"), node="n1", site="core")
    membership = membership_beside_an_edge(settings, fog_keys, (), lambda _: httpx.Response(503))
    peers, sent = membership.peers, heartbeat_of_edge("cloud")
    for reach, is_reachable in ((frozenset({"edge"}), False), (None, True)):
        changed = peers.changed()
        peers.record_answer(EDGE_URL, sent, 1.0, reach)
        assert peers.reachable("cloud") is is_reachable
        assert changed.is_set()
    await membership.close()
