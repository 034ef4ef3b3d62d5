"""What the start of a runner's query means for the other queries of the worker."""

import msgspec

from analytics_worker.lifecycle.start_slot import StartSlot
from tests.analytics_worker.lifecycle.runner_scene import FIRST, running_scene


class Owner:
    """A further owner of the start slot."""


def test_started_runner_has_its_rank_before_its_sites_have_answered() -> None:
    slot, urgent = StartSlot(lambda: True), msgspec.structs.replace(FIRST, salience=5)
    with running_scene(slot=slot, fragment=urgent, answers=False):
        assert not slot.acquire(Owner(), FIRST)
