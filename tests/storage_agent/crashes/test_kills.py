"""kill -9 of the agent and of Ignite under load: acknowledged data is stored exactly once."""

import random
from collections.abc import Callable

import pytest

from ignite_server.server import IgniteServer
from tests.storage_agent.crashes.limits import ROUNDS
from tests.storage_agent.crashes.load import Load
from tests.storage_agent.crashes.processes import AgentProcess, restart_ignite, wait_for_compaction

_MAX_BODIES = 200
_DRAINED_S = 120.0


def rounds(load: Load, ignite: IgniteServer, crash: Callable[[], None], within: float) -> None:
    """Crash a process repeatedly, at random times or during compaction; check the stored data.

    ``within``: the seconds within which all acknowledged data must be stored.
    """
    chance = random.Random()  # noqa: S311 - any moment will do
    for number in range(ROUNDS):
        load.progress(chance.randint(1, _MAX_BODIES))
        if number % 2:
            wait_for_compaction(ignite)
        crash()
        load.progress(1)
        print(f"round {number + 1}: {load.check(within=within)} points and rows are there")


@pytest.mark.timeout(180 + 40 * ROUNDS)
def test_killed_agent_loses_no_acknowledged_points(
    agent: AgentProcess, ignite: IgniteServer
) -> None:
    def crash() -> None:
        agent.kill()
        agent.start()

    with Load(agent.url) as load:
        # As nothing is spooled, what is acknowledged can be read at once.
        rounds(load, ignite, crash, 0.0)
    load.check()


@pytest.mark.timeout(180 + 60 * ROUNDS)
@pytest.mark.parametrize("when_away", ["spool"])
def test_killed_ignite_loses_no_acknowledged_points(
    agent: AgentProcess, ignite: IgniteServer
) -> None:
    def crash() -> None:
        ignite.kill()
        restart_ignite(ignite)

    with Load(agent.url) as load:
        rounds(load, ignite, crash, _DRAINED_S)
    load.check(within=_DRAINED_S)
