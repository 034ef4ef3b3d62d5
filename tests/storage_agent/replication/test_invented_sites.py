"""Sites that exist only in the reports of a stolen edge."""

from collections import Counter

import httpx
import pytest

from mistbow.auth.fog_keys import FogKeys
from storage_agent.settings import AgentSettings
from storage_agent.streams.streams import Streams
from tests.storage_agent.membership.test_false_reports import (
    EDGE_URL,
    heartbeat_of_edge,
    membership_beside_an_edge,
)
from tests.support.conditions import aeventually

INVENTED = [f"invented-{number}" for number in range(5)]


@pytest.mark.parametrize("reach", [(), ("*",)])
async def test_invented_site_has_no_replica_of_its_metadata(
    streams: Streams, settings: AgentSettings, fog_keys: FogKeys, reach: tuple[str, ...]
) -> None:
    """The edge reports five sites, and does not answer for them."""
    asked = Counter[str]()

    def answer(request: httpx.Request) -> httpx.Response:
        asked[request.url.params["site"]] += 1
        return httpx.Response(503, stream=httpx.ByteStream(b""))

    membership = membership_beside_an_edge(settings, fog_keys, reach, answer)
    await membership.open(streams, (), lambda _: False)
    proven = membership.network.proven_reach(EDGE_URL)
    membership.peers.record_answer(EDGE_URL, heartbeat_of_edge(*INVENTED), 1.0, proven)

    async def all_asked() -> bool:
        expected = {"edge", *(INVENTED if "*" in reach else ())}
        return all(asked[site] >= 2 for site in expected)

    await aeventually(all_asked)
    assert {stream.name for stream in streams.all()} == {"metadata"}
    if not reach:
        assert asked.keys() == {"edge"}
    await membership.close()
