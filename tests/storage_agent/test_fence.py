"""Two agents at one Ignite: one of them is fenced."""

import httpx
import msgspec
import pytest
from pyignite import Client

from mistbow.client import Point
from mistbow.client.agent import AgentClient
from mistbow.errors import UnavailableError
from storage_agent.ignite.client import HISTORICAL
from storage_agent.streams.segments import Segment, decode_segment, encode_segment, segment_key
from tests.storage_agent.crashes.processes import AgentProcess
from tests.support.agents import running_agent
from tests.support.conditions import eventually


def test_fenced_agent_ends_by_its_setting_and_the_other_refuses_writes_after_the_restart(
    ignite, settings, tmp_path
):
    process = AgentProcess(tmp_path / "a", ignite, when_fenced="end")
    try:
        process.start()
        with running_agent(settings.model_copy(update={"home": tmp_path / "b"})) as url:
            # No request reaches the process, so only its own check can find the claim.
            eventually(process.ends, what="the fenced process has ended")
            process.start()
            claimed = "another agent has claimed the points of this site"
            eventually(lambda: claimed in httpx.get(f"{url}/readyz").text, what="the claim is seen")
            client = AgentClient(url, attempts=1)
            with pytest.raises(UnavailableError, match=claimed):
                client.put([Point(metric="m", entity="e", value=1, ts=0)])
            client.close()
    finally:
        process.kill()


def _store_claim_without_state(ignite, head):
    """Store a claim's segment at ``head``, like an agent that dies before it stores its state."""
    client = Client(timeout=10)
    with client.connect("127.0.0.1", ignite.port):
        segments = client.get_cache(HISTORICAL)
        claim = decode_segment(segments.get(segment_key("raw", 0)))
        header = msgspec.structs.replace(
            claim.header, first=head, epoch=claim.header.epoch + 1, nonce="other agent"
        )
        data = encode_segment(Segment(header, claim.rows, claim.future_points))
        assert segments.put_if_absent(segment_key("raw", head), data)


def test_agent_is_not_ready_after_a_claim_whose_agent_died_before_it_stored_the_state(
    ignite, settings
):
    with running_agent(settings) as url:
        client = AgentClient(url, attempts=1)
        _store_claim_without_state(ignite, client.info("raw").head)
        with pytest.raises(UnavailableError, match="another agent has claimed the points"):
            client.put([Point(metric="m", entity="e", value=1, ts=0)])
        client.close()
        assert "another agent has claimed the points" in httpx.get(f"{url}/readyz").text
