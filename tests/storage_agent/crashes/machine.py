"""Random operations on an agent, with crashes, compared with a model."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ignite_server.server import IgniteServer
from storage_agent.agent import recovery
from storage_agent.settings import AgentSettings
from storage_agent.streams import compaction
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.crashes.failing_link import Fault
from tests.storage_agent.crashes.life import Life
from tests.storage_agent.crashes.model import Model
from tests.storage_agent.crashes.observation import STREAMS, Observation
from tests.storage_agent.crashes.operations import (
    KEPT,
    USED,
    CreateStream,
    Moment,
    Operation,
    retry,
)
from tests.storage_agent.crashes.processes import restart_ignite
from tests.support.conditions import aeventually
from tests.support.ignite import empty

BEGIN = 1_795_262_400_000
_KEPT_MS = 20_000
_AGREES_S = 10.0
_READY_S = 60.0

_faults = st.builds(Fault, st.integers(0, 12), st.booleans())
_waits = st.integers(0, 15_000) | st.just(61_000)


def explore(
    server: IgniteServer,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    examples: int,
    steps: int,
    kills_ignite: bool = False,
) -> None:
    """Run random sequences of operations; raise an error at the first difference from the model."""

    def lose() -> None:
        AgentMachine.lost = True

    # Merge what is small already.
    monkeypatch.setattr(compaction, "SEGMENTS_PER_RUN", 3)
    monkeypatch.setattr(compaction, "FAN_IN", 2)
    # An agent would end this process.
    monkeypatch.setattr(recovery, "end_process", lose)
    AgentMachine.server, AgentMachine.home = server, home
    AgentMachine.kills_ignite, AgentMachine.lost = kills_ignite, False
    settings = hypothesis_settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        # What the agent does by itself is at no fixed step: less of an example is another one.
        phases=[Phase.generate],
    )
    run_state_machine_as_test(AgentMachine, settings=settings)


class AgentMachine(RuleBasedStateMachine):
    """An agent on a real Ignite, whose content must equal the content of a model.

    ``kills_ignite``: some operations kill Ignite. ``lost``: an agent has detected lost rows.
    """

    server: IgniteServer
    home: Path
    kills_ignite: bool
    lost: bool

    @initialize()
    def begin(self) -> None:
        empty(self.server)
        # An agent remembers on its own disk what Ignite had.
        self.settings = AgentSettings(
            home=Path(tempfile.mkdtemp(dir=self.home)),
            node="n",
            ignite_port=self.server.port,
            retention_s=_KEPT_MS // 1000,
            when_away="refuse",
            collect_routes=False,
        )
        self.clock = ManualClock(BEGIN)
        self.number = 0
        self.frontier = 0
        self.expired = False
        self.model = Model(_KEPT_MS)
        self.life = Life(self.settings, self.clock)
        self.life.run(self.life.start())
        for name in STREAMS:
            self.use(CreateStream(name))

    @rule(operation=USED | KEPT)
    def use(self, operation: Operation) -> None:
        moment = self.moment()
        self.life.run(operation.run(self.life.agent, moment))
        self.agree([operation.apply(self.model, moment)])

    @rule(operation=USED)
    def repeat(self, operation: Operation) -> None:
        moment = self.moment()
        for _ in range(2):
            self.life.run(operation.run(self.life.agent, moment))
        self.agree([operation.apply(self.model, moment)])

    @rule(by=_waits)
    def wait(self, by: int) -> None:
        self.clock.now += by
        self.agree([self.model.at(self.clock.now)])

    @rule()
    def restart(self) -> None:
        self.life.close()
        self.begin_again()
        self.agree([self.model])

    @rule(operation=USED | KEPT, fault=_faults)
    def lose_the_link(self, operation: Operation, fault: Fault) -> None:
        """Break the link to Ignite during an operation; repeat the operation until it succeeds."""
        moment = self.moment()
        self.life.link.fail(fault, lambda: None)
        self.life.run(self.retry(operation, moment))
        self.life.link.heal()
        self.agree([operation.apply(self.model, moment)])

    @rule(
        used=st.lists(USED, min_size=1, max_size=3),
        concurrent=st.lists(KEPT, max_size=2),
        fault=_faults,
        again=st.none() | _faults,
        asked_again=st.booleans(),
    )
    def crash(
        self,
        used: Sequence[Operation],
        concurrent: Sequence[Operation],
        fault: Fault,
        again: Fault | None,
        asked_again: bool,
    ) -> None:
        """Let the agent die at ``fault`` during operations; then start a new agent.

        ``used``: operations that run one after the other. ``concurrent``: operations that run
        concurrently with ``used``. ``again``: the fault at which the new agent dies during its
        start, before a third agent starts; None: the new agent does not die. ``asked_again``:
        whether the interrupted operation is repeated.
        """
        moments = [self.moment() for _ in used]
        begun = done = 0

        async def use() -> None:
            nonlocal begun, done
            for operation, moment in zip(used, moments, strict=True):
                begun += 1
                await operation.run(self.life.agent, moment)
                done += 1

        async def keep() -> None:
            for operation in concurrent:
                await operation.run(self.life.agent, moments[0])

        async def all_of_it() -> None:
            await asyncio.gather(use(), keep())

        self.life.die_at(fault)
        self.life.run(self.life.until_dead(all_of_it()))
        self.life.die()
        self.begin_again(again)
        for operation, moment in zip(used[:done], moments, strict=False):
            self.model = operation.apply(self.model, moment)
        models = [self.model]
        if begun > done:
            operation, moment = used[done], moments[done]
            models.append(operation.apply(self.model, moment))
            if asked_again:
                self.life.run(operation.run(self.life.agent, moment))
                del models[0]
        self.agree(models)

    @precondition(lambda self: self.kills_ignite)
    @rule(operation=USED | KEPT, fault=_faults)
    def kill_ignite(self, operation: Operation, fault: Fault) -> None:
        """Kill Ignite during an operation, and restart Ignite.

        The operation is repeated until it succeeds.
        """
        moment = self.moment()
        killed = asyncio.Event()

        def kill() -> None:
            self.server.kill()
            killed.set()

        async def use() -> None:
            doing = asyncio.ensure_future(self.retry(operation, moment))
            await asyncio.wait(
                {doing, asyncio.ensure_future(killed.wait())},
                return_when=asyncio.FIRST_COMPLETED,
            )
            self.life.link.heal()
            if not killed.is_set():
                kill()
            await asyncio.to_thread(restart_ignite, self.server)
            await doing

        self.life.link.fail(fault, kill)
        self.life.run(use())
        self.agree([operation.apply(self.model, moment)])

    def moment(self) -> Moment:
        self.number += 1
        return Moment(self.clock.now, self.number)

    def begin_again(self, fault: Fault | None = None) -> None:
        """Start a new agent.

        If there is a ``fault``, first start an agent that dies at the fault.
        """
        if fault is not None:
            life = Life(self.settings, self.clock)
            life.die_at(fault)
            life.run(life.until_dead(life.start()))
            life.die()
        self.life = Life(self.settings, self.clock)
        self.life.run(self.life.start())
        self.expired = bool(self.model.once)

    async def retry(self, operation: Operation, moment: Moment) -> None:
        await retry(lambda: operation.run(self.life.agent, moment))
        await aeventually(self.life.is_ready, timeout=_READY_S)

    def agree(self, models: Sequence[Model]) -> None:
        """Check that the agent's content equals one of ``models``; store this one as ``model``."""

        async def agrees() -> bool:
            if self.expired:
                # What the latest values are then is seen to now and then only.
                await self.life.agent.checkpoint_catalogue()
            seen = await Observation.by(self.life.agent)
            # A later read never has a smaller frontier.
            assert seen.raw_frontier >= self.frontier
            problems = [list(model.problems(seen, self.clock.now)) for model in models]
            assert [] in problems, problems
            self.model = models[problems.index([])]
            self.frontier = seen.raw_frontier
            return True

        self.expired = self.expired or any(model.once != self.model.once for model in models)
        self.life.run(aeventually(agrees, timeout=_AGREES_S))
        self.expired = False
        assert not self.lost

    def teardown(self) -> None:
        if hasattr(self, "life"):
            self.life.close()
