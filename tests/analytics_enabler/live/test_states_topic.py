"""The topic of the states of deployments."""

from typing import Any, cast

import msgspec

from analytics.insight_models import DeploymentStatus
from analytics_enabler.deployments.model import Deployment
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.live.topics import Event, StatesTopic
from mistbow.errors import UnavailableError
from tests.analytics_enabler.support import deployment
from tests.command_line.test_top import deployment as status

TEXT = "a = COMPUTE AVG(x) EVERY 1 s"


class Stored:
    """Stored deployments; None: the enabler has not read them yet."""

    def __init__(self, ids: list[str] | None) -> None:
        self.ids = ids

    def all(self) -> list[Deployment]:
        """Return the deployments."""
        if self.ids is None:
            raise UnavailableError("not read yet", hint="Try again.")
        return [deployment(TEXT, deployment_id=each) for each in self.ids]


def topic_of(stored: Stored) -> StatesTopic:
    def status_of(one: Deployment) -> DeploymentStatus:
        return DeploymentStatus.model_validate({**status(), "deployment_id": one.id})

    return StatesTopic(cast(Deployments, stored), status_of)


def present(*ids: str) -> tuple[str, Any]:
    return ("present", {"deployment_ids": list(ids)})


def names(events: list[Event] | tuple[Event, ...] | Any) -> list[str]:
    return [name for name, _ in events]


async def test_new_client_receives_the_present_deployments_after_their_states() -> None:
    stored = Stored(["d-1", "d-2"])
    topic = topic_of(stored)
    await topic.poll()
    events = topic.current(None)
    assert names(events) == ["state", "state", "present"]
    assert events[-1] == present("d-1", "d-2")
    stored.ids = ["d-2"]
    assert await topic.poll() == [("deleted", {"deployment_id": "d-1"})]
    assert topic.current(5)[-1] == present("d-2")


async def test_deployments_are_present_once_the_enabler_has_read_them() -> None:
    stored = Stored(None)
    topic = topic_of(stored)
    assert (list(await topic.poll()), list(topic.current(5))) == ([], [])
    stored.ids = ["d-1"]
    events = await topic.poll()
    assert names(events) == ["state", "present"]
    assert events[-1] == present("d-1")
    stored.ids = ["d-1", "d-2"]
    assert names(await topic.poll()) == ["state"]


async def test_state_has_the_time_of_the_submission() -> None:
    topic = topic_of(Stored(["d-1"]))
    [(_, state), *_] = await topic.poll()
    assert msgspec.json.decode(state)["created_at"] == status()["created_at"]
