"""Sites that are gone for good: forgotten by request at one, and so at all, until they are back."""

import httpx
import pytest

from mistbow.client.agent import AgentClient
from mistbow.errors import ConflictError, InvalidRequestError, NotFoundError
from mistbow.streams.schemas import METADATA
from tests.storage_agent.fabric.test_sites import said
from tests.support.sites import TOKEN, Place, knows, site_of
from tests.support.waiting import eventually


def names(client: AgentClient) -> list[str]:
    return [site.name for site in client.fabric().sites]


def has_none_of_c(client: AgentClient) -> bool:
    kept = {stream.name for stream in client.streams()}
    return names(client) == ["a", "b"] and "replicas/c/metadata" not in kept


def test_a_site_that_is_gone_is_forgotten_by_all_until_it_is_back(places: list[Place]) -> None:
    a, b, c = places
    with a.agent(b) as at_a:
        with b.agent() as at_b:
            with c.agent(b):
                knows(at_a, "c")
                knows(at_b, "c")
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
            knows(at_b, "a")
            assert has_none_of_c(at_b)
            with c.agent(b):
                knows(at_a, "c")
                knows(at_b, "c")
                eventually(lambda: "forgotten" not in said(at_a, METADATA))


def test_a_name_that_was_only_mistyped_is_forgotten(places: list[Place]) -> None:
    with places[0].agent() as at_a:
        greeting = {"site": "edge-l", "node": "n", "url": "http://127.0.0.1:9", "instance": "i"}
        headers = {"Authorization": f"Bearer {TOKEN}"}
        httpx.post(f"{at_a.url}/fabric/greet", json=greeting, headers=headers).raise_for_status()
        copy = at_a.operations.ask_copy("edge-l")
        with pytest.raises(ConflictError, match="a wants edge-l to hold a copy"):
            at_a.operations.forget_site("edge-l")
        at_a.operations.withdraw_copy(copy.id)
        at_a.operations.forget_site("Edge-L")
        assert names(at_a) == ["a"]
        with pytest.raises(InvalidRequestError, match="edge-l is no other site"):
            at_a.operations.ask_copy("edge-l")
