"""Removal of a site that is gone for good: a request at one site removes it at all sites."""

import httpx
import pytest

from mistbow.client.agent import AgentClient
from mistbow.errors import ConflictError, InvalidRequestError, NotFoundError
from mistbow.streams.schemas import METADATA
from tests.storage_agent.membership.test_sites import current_facts
from tests.support.conditions import eventually
from tests.support.sites import TOKEN, AgentSite, site_of, wait_until_reached


def names(client: AgentClient) -> list[str]:
    return [site.name for site in client.fabric().sites]


def has_none_of_c(client: AgentClient) -> bool:
    stream_names = {stream.name for stream in client.streams()}
    return names(client) == ["a", "b"] and "replicas/c/metadata" not in stream_names


def test_forgotten_site_is_removed_everywhere_until_it_returns(places: list[AgentSite]) -> None:
    a, b, c = places
    with a.agent(b) as at_a:
        with b.agent() as at_b:
            with c.agent(b):
                wait_until_reached(at_a, "c")
                wait_until_reached(at_b, "c")
                with pytest.raises(ConflictError, match="c can be reached"):
                    at_a.operations.forget_site("c")
            for client in (at_a, at_b):
                eventually(lambda: not site_of(client, "c").reachable)  # noqa: B023
            at_a.operations.forget_site("c")
            for client in (at_a, at_b):
                eventually(lambda: has_none_of_c(client))  # noqa: B023
            with pytest.raises(NotFoundError, match="there is no site c"):
                at_b.operations.forget_site("c")
        with b.agent(a) as at_b:
            wait_until_reached(at_b, "a")
            assert has_none_of_c(at_b)
            with c.agent(b):
                wait_until_reached(at_a, "c")
                wait_until_reached(at_b, "c")
                eventually(lambda: "forgotten" not in current_facts(at_a, METADATA))


def test_mistyped_site_name_can_be_forgotten(places: list[AgentSite]) -> None:
    with places[0].agent() as at_a:
        heartbeat = {"site": "edge-l", "node": "n", "url": "http://127.0.0.1:9", "instance": "i"}
        headers = {"Authorization": f"Bearer {TOKEN}"}
        httpx.post(f"{at_a.url}/fabric/greet", json=heartbeat, headers=headers).raise_for_status()
        copy = at_a.operations.request_copy("edge-l")
        with pytest.raises(ConflictError, match="a has a copy with the target edge-l"):
            at_a.operations.forget_site("edge-l")
        at_a.operations.withdraw_copy(copy.id)
        at_a.operations.forget_site("Edge-L")
        assert names(at_a) == ["a"]
        with pytest.raises(InvalidRequestError, match="edge-l is not another site"):
            at_a.operations.request_copy("edge-l")
