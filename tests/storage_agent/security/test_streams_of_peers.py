"""Which streams an agent of another site may read."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from mistbow.auth.callers import on_behalf_of, service_caller
from mistbow.auth.credential import Credential
from mistbow.client.operation_model import Copy, SeriesFilter
from mistbow.clock import utc_now
from mistbow.errors import OutOfReachError
from storage_agent.api.streams import check_peer

END = utc_now() + timedelta(days=1)
EDGE = service_caller(Credential("x", "agent", "b", "0" * 32, "0" * 64, END), "a")
SOME = SeriesFilter(metric=("delay",))


def copy(target: str = "b", **more: Any) -> Copy:
    return Copy(
        **{"id": "1", "why": "a test", "since": 0, "cause": "request", **more}, target=target
    )


def agent_with(*copies: Copy) -> Any:
    found = SimpleNamespace(all=lambda: copies)
    return SimpleNamespace(replication=SimpleNamespace(copies=found))


@pytest.mark.parametrize("part", [copy(filter=SOME), copy(withheld=(SOME,))])
def test_copy_of_a_part_does_not_open_the_rows_of_the_stream(part: Copy) -> None:
    with on_behalf_of(EDGE):
        check_peer(agent_with(part), "raw")
        with pytest.raises(OutOfReachError):
            check_peer(agent_with(part), "raw", rows=True)


def test_copy_of_a_whole_stream_opens_this_stream() -> None:
    agent = agent_with(copy(), copy("c", stream="panes"))
    with on_behalf_of(EDGE):
        check_peer(agent, "raw", rows=True)
        check_peer(agent, "metadata", rows=True)
        check_peer(agent, "replicas/b/raw", rows=True)
        for name in ("panes", "replicas/c/raw"):
            with pytest.raises(OutOfReachError):
                check_peer(agent, name)
