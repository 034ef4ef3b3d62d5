"""The names of streams whose rows never expire."""

import pytest

from mistbow.streams.schemas import (
    DECISIONS,
    DEPLOYMENTS,
    METADATA,
    PLACEMENTS,
    decisions_stream,
    domain_stream,
    is_permanent,
)


@pytest.mark.parametrize(
    "name",
    [
        METADATA,
        "records/schemas",
        *(domain_stream(DEPLOYMENTS, domain) for domain in ("all", "north")),
        *(domain_stream(PLACEMENTS, domain) for domain in ("all", "north")),
        domain_stream(DECISIONS, "north"),
        decisions_stream("all.fair"),
    ],
)
def test_state_of_services_and_its_replicas_are_permanent(name: str) -> None:
    assert is_permanent(name)
    assert is_permanent(f"replicas/edge/{name}")
    # A copy of a stream that was deleted and created again, or of some rows.
    assert name == METADATA or is_permanent(f"replicas/edge/{name}/4f")


@pytest.mark.parametrize(
    "name", ["x/metadata", "metadata/x", "metadata2", "my/schemas", "schemas", "a/b/placements"]
)
def test_stream_of_a_user_with_a_similar_name_expires(name: str) -> None:
    assert not is_permanent(name)
    assert not is_permanent(f"replicas/edge/{name}")
