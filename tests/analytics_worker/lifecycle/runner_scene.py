"""A runner with a streaming library and a storage agent in memory, for the tests of its states."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from analytics.plan.fragments import Fragment, Partial
from analytics_worker.evaluate.operator_failures import OperatorFailure
from analytics_worker.lifecycle.runner import FragmentRunner
from analytics_worker.lifecycle.runner_state import RunnerState
from analytics_worker.lifecycle.start_slot import StartSlot
from analytics_worker.query_lease import QueryLease
from analytics_worker.streaming_library import Counts, QueryFailure, StreamingLibrary
from mistbow.client.agent import AgentClient
from mistbow.errors import FencedError, UnavailableError
from mistbow.streams.models import StreamInfo, WriterState
from tests.analytics_worker.lifecycle.fragments import partial
from tests.support.conditions import eventually

FIRST = partial("f")
SECOND = msgspec.structs.replace(FIRST, lookback_ms=9000)


@dataclass
class FakeAgent:
    """An agent in memory with one stream."""

    url: str = "http://127.0.0.1:1"
    epoch: int = 0
    frontier: int = -1
    attributes: dict[str, Any] = field(default_factory=dict)
    answers: threading.Event = field(default_factory=threading.Event)
    """Whether the agent describes streams; requests wait for that, and then fail."""
    is_silent: bool = False
    """Whether each request fails at once."""
    refusals: int = 0
    descriptions: int = 0
    """How often a stream was described."""

    def __post_init__(self) -> None:
        self.answers.set()

    def at(self, site: str) -> "FakeAgent":
        del site
        return self

    def claim(self, name: str) -> WriterState:
        del name
        self.epoch += 1
        return WriterState(self.epoch, 0, self.frontier, self.attributes)

    def info(self, name: str) -> StreamInfo:
        if self.is_silent:
            self.refusals += 1
            raise UnavailableError("the site n1 is silent")
        if not self.answers.is_set():
            self.answers.wait(30)
            raise UnavailableError("the site n1 does not answer")
        self.descriptions += 1
        return StreamInfo(name, [], 0, 0, self.frontier, self.epoch, self.attributes, 0, None)

    def seek(self, name: str, time: int) -> int:
        del name, time
        return 0

    def advance(
        self, name: str, epoch: int, *, frontier: int | None = None, attributes: dict[str, Any]
    ) -> WriterState:
        del name
        if epoch < self.epoch:
            raise FencedError(f"epoch {self.epoch} owns the stream")
        self.frontier = max(self.frontier, -1 if frontier is None else frontier)
        self.attributes |= attributes
        return WriterState(epoch, 0, self.frontier, self.attributes)


@dataclass(eq=False)
class FakeQuery:
    """A query whose progress the test sets."""

    fragment: Fragment
    lease: QueryLease
    frontier: int = 0
    failure: QueryFailure | None = None
    stops: int = 0
    stop_error: Exception | None = None
    ended: bool = False
    begun: bool = True
    decided: int = 0
    counts: Counts = field(default_factory=lambda: Counts(batches=1))
    observations: int = 0

    def observe(self) -> None:
        self.observations += 1

    def read_to(self, frontier: int | None = None) -> Any:
        return frontier

    @property
    def stopped(self) -> bool:
        return self.stops > 0

    def stop(self) -> None:
        self.stops += 1
        self.lease.delete()
        if self.stop_error is not None:
            raise self.stop_error
        self.ended = True


@dataclass
class FakeLibrary:
    """A streaming library that only records its queries."""

    queries: list[FakeQuery] = field(default_factory=list)
    support: Mapping[str, str | None] = field(default_factory=dict)
    start_error: Exception | None = None
    begun: bool = True

    def is_alive(self) -> bool:
        return True

    def adopt_thread(self) -> None:
        pass

    def set_salience(self, salience: int | None) -> None:
        del salience

    def failure_of(self, error: Exception) -> QueryFailure:
        return QueryFailure(str(error), is_fenced="fenced" in str(error))

    def operator_failures(self) -> Mapping[str, OperatorFailure]:
        return {}

    def run_partial(
        self, fragment: Partial, after: int, start: int, lease: QueryLease
    ) -> FakeQuery:
        del after, start
        if self.start_error is not None:
            raise self.start_error
        self.queries.append(FakeQuery(fragment, lease, begun=self.begun))
        return self.queries[-1]


@dataclass
class RunnerScene:
    """A runner with its library and its agent."""

    library: FakeLibrary
    agent: FakeAgent
    runner: FragmentRunner

    def state(self) -> RunnerState:
        return self.runner._progress.state

    def reaches(self, state: RunnerState) -> None:
        eventually(lambda: self.state() is state, timeout=10, what=state.name)

    def stops(self, query: FakeQuery) -> None:
        # The state changes before the queries that it ends are stopped.
        eventually(lambda: query.stopped, timeout=10, what="the end of the query")

    def has_queries(self, number: int) -> None:
        eventually(lambda: len(self.library.queries) == number, timeout=10, what="queries")


@contextmanager
def running_scene(
    frontier: int = -1,
    has_memory: Callable[[], bool] = lambda: True,
    memory_patience_s: float = 60.0,
    slot: StartSlot | None = None,
    fragment: Partial = FIRST,
    *,
    answers: bool = True,
    is_silent: bool = False,
) -> Iterator[RunnerScene]:
    """Start a runner of ``fragment`` for the ``with``; ``slot``: the slot that runners share.

    ``answers``, ``is_silent``: whether the agent describes streams, as in ``FakeAgent``.
    """
    fake_library = FakeLibrary()
    fake_agent = FakeAgent(frontier=frontier, attributes={"begin": 0}, is_silent=is_silent)
    if not answers:
        fake_agent.answers.clear()
    library, agent = cast("StreamingLibrary", fake_library), cast("AgentClient", fake_agent)
    slot = slot or StartSlot(has_memory, memory_patience_s)
    runner = FragmentRunner(library, agent, fragment, slot)
    runner.start()
    try:
        yield RunnerScene(fake_library, fake_agent, runner)
    finally:
        fake_agent.answers.set()
        runner.stop()


def run_first_query(scene: RunnerScene) -> FakeQuery:
    """Let the first query catch up, and return it once it runs."""
    scene.reaches(RunnerState.STARTING)
    scene.library.queries[-1].frontier = 1000
    scene.reaches(RunnerState.RUNNING)
    return scene.library.queries[-1]
