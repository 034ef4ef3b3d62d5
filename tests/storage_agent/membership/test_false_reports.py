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
from storage_agent.membership.peers import Peers
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


TRUE_URL = "http://cloud"


def peers_with_a_silent_cloud() -> Peers:
    """Return peers of the site ``core``: the cloud was at ``TRUE_URL``, and is silent now."""
    peers = Peers(
        Heartbeat(site="core", node="n", url="http://core", instance="1"), (), system_clock
    )
    peers.record_answer(TRUE_URL, cloud_at(TRUE_URL), 1.0)
    peers.record_answer(EDGE_URL, heartbeat_of_edge(), 1.0)
    peers.record_failure(TRUE_URL)
    return peers


def cloud_at(url: str) -> Heartbeat:
    return Heartbeat(site="cloud", node="n", url=url, instance="c")


def report_of(site: str, url: str, *, reached: bool = True) -> Heartbeat:
    """Return a heartbeat of a site which reports that the cloud is at ``url``."""
    report = PeerReport(site="cloud", node="n", url=url, reached=reached)
    return Heartbeat(
        site=site, node="n", url=f"http://{site}", instance=site, version=1, peers=(report,)
    )


def test_false_address_of_a_silent_site_does_not_replace_its_own() -> None:
    peers = peers_with_a_silent_cloud()
    for _ in range(3):
        peers.record_answer(EDGE_URL, heartbeat_of_edge("cloud"), 1.0)
        assert {TRUE_URL, SILENT_URL} <= peers.begin_round()
        # The agent there cannot prove the identity of the cloud.
        peers.record_failure(SILENT_URL)
    cloud = peers.get("cloud")
    assert cloud is not None
    assert cloud.url == TRUE_URL
    peers.record_answer(TRUE_URL, cloud_at(TRUE_URL), 1.0)
    assert peers.reachable("cloud")
    assert SILENT_URL not in peers.begin_round()


def test_site_that_moved_is_found_at_a_reported_address_despite_false_reports() -> None:
    peers = peers_with_a_silent_cloud()
    peers.receive_heartbeat(report_of("honest", "http://new"), is_authenticated=True)
    contacted: set[str] = set()
    for number in range(40):
        false = report_of("thief", f"http://false-{number}")
        peers.receive_heartbeat(false, is_authenticated=True)
        contacted |= peers.begin_round()
        if number == 1:
            assert "http://new" in contacted
    # The site that reports many addresses does not displace the report of another one.
    assert "http://new" in peers.begin_round() | peers.begin_round()
    peers.record_answer("http://new", cloud_at("http://new"), 1.0)
    cloud = peers.get("cloud")
    assert cloud is not None
    assert (cloud.url, cloud.address) == ("http://new", "http://new")


def test_address_at_which_a_site_is_lost_again_is_not_contacted() -> None:
    peers = peers_with_a_silent_cloud()
    peers.receive_heartbeat(report_of("honest", "http://new"), is_authenticated=True)
    lost = report_of("honest", "http://new", reached=False)
    peers.receive_heartbeat(lost, is_authenticated=True)
    assert "http://new" not in peers.begin_round()
    assert TRUE_URL in peers.begin_round()


def test_number_of_reported_addresses_is_limited() -> None:
    peers = peers_with_a_silent_cloud()
    for number in range(100):
        report = report_of(f"s{number}", f"http://new-{number}")
        peers.receive_heartbeat(report, is_authenticated=True)
    cloud = peers.get("cloud")
    assert cloud is not None
    assert len(cloud.reported_urls) <= 16
