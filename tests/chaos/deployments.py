"""The deployments of a storm, with the generations of their insights."""

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from analytics.client.enabler import EnablerClient
from analytics.insight_models import DeploymentStatus, Results
from mistbow.errors import MistbowError, NotFoundError, UnavailableError
from tests.chaos.fog import ChaosFog
from tests.chaos.senders import METRIC

T = TypeVar("T")

STEADY = "steady"
"""The name of the deployment that runs from the beginning to the end of a storm."""

_STEADY_QUERIES = {
    "mean": f"AVG({METRIC}, 6 SECONDS) BY entityID EVERY 2 SECONDS",
    "number": f"COUNT({METRIC}, 4 SECONDS) BY site EVERY 2 SECONDS",
    "total": f"SUM({METRIC}, 10 SECONDS) EVERY 2 SECONDS",
}
_DRAWN_QUERIES = {
    "span": f"MAX({METRIC}, {{}} SECONDS) - MIN({METRIC}, {{}} SECONDS) BY site EVERY 4 SECONDS",
    "middle": f"MEDIAN({METRIC}, {{}} SECONDS) BY entityID EVERY 4 SECONDS",
    "share": f"100 * SUM({METRIC}, {{}} SECONDS) / COUNT({METRIC}, {{}} SECONDS) EVERY 4 SECONDS",
    "of_north": f'AVG({METRIC}, {{}} SECONDS) WHEN site == "north" EVERY 4 SECONDS',
}
_WINDOWS_S = (4, 8, 12, 20)
_SCHEDULERS = ("fair", "latency")
_MAX_DRAWN = 2
_MAX_RESULTS = 100_000
_ANSWERED_S = 240.0
_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class Generation:
    """One definition of an insight, in force for the ticks after ``since`` up to ``until`` (ms)."""

    uid: str
    name: str
    text: str
    since: int
    until: int | None = None


@dataclass(slots=True)
class Deployment:
    """A deployment; ``texts``: name of an insight -> its present definition after COMPUTE."""

    id: str
    name: str
    texts: dict[str, str]
    scheduler: str
    generations: list[Generation] = field(default_factory=list)
    is_deleted: bool = False

    def learn(self, status: DeploymentStatus) -> None:
        """Update the generations to a status."""
        known = {each.uid for each in self.generations}
        for insight in status.insights:
            if insight.uid not in known:
                text = statement(insight.name, self.texts[insight.name], self.scheduler)
                self.generations.append(Generation(insight.uid, insight.name, text, insight.since))
        live = {insight.uid for insight in status.insights}
        # A generation that is listed nowhere was never in force.
        ends = {insight.uid: insight.until for insight in status.ended}
        self.generations = [
            each if each.uid in live else replace(each, until=ends.get(each.uid, each.since))
            for each in self.generations
        ]


def statement(name: str, definition: str, scheduler: str) -> str:
    """Return the text of an insight."""
    return f"{name} = COMPUTE {definition} WITH SCHEDULER={scheduler}"


class Deployments:
    """Submits, amends and deletes deployments, and repeats each request until it is answered.

    Threads can share the deployments: they change one after the other.
    """

    def __init__(self, fog: ChaosFog, seed: int) -> None:
        self._fog = fog
        self._seed = seed
        self._lock = threading.Lock()
        self._current: dict[str, Deployment] = {}
        self._deleted: list[Deployment] = []
        self._paused: set[str] = set()
        self._submitted = 0

    @property
    def current(self) -> list[Deployment]:
        """The deployments that exist."""
        with self._lock:
            return list(self._current.values())

    @property
    def deleted(self) -> list[Deployment]:
        """The deployments that were deleted."""
        with self._lock:
            return list(self._deleted)

    @property
    def drawn(self) -> list[Deployment]:
        """The deployments that exist, but for the steady one."""
        return [each for each in self.current if each.name != STEADY]

    @property
    def has_room(self) -> bool:
        """Whether a further deployment may be submitted."""
        return len(self.drawn) < _MAX_DRAWN

    def submit_steady(self) -> Deployment:
        """Submit the deployment that runs all the time."""
        with self._lock:
            return self._submit(STEADY, dict(_STEADY_QUERIES), _SCHEDULERS[0])

    def submit(self, draw: int) -> None:
        """Submit a deployment of drawn insights."""
        chance = random.Random(draw)  # noqa: S311 - reproducible by design
        chosen = sorted(chance.sample(sorted(_DRAWN_QUERIES), 2))
        texts = {name: _drawn_text(name, chance) for name in chosen}
        with self._lock:
            self._submit(f"drawn-{self._submitted}", texts, chance.choice(_SCHEDULERS))

    def amend(self, draw: int) -> None:
        """Amend one insight of a drawn deployment; the others stay as they are."""

        def change(deployment: Deployment, chance: random.Random) -> None:
            name = chance.choice(sorted(deployment.texts))
            deployment.texts[name] = _drawn_text(name, chance)

        self._change(draw, change)

    def change_scheduler(self, draw: int) -> None:
        """Amend a drawn deployment to name the other scheduler."""

        def change(deployment: Deployment, _: random.Random) -> None:
            [deployment.scheduler] = set(_SCHEDULERS) - {deployment.scheduler}

        self._change(draw, change)

    def pause(self, draw: int) -> None:
        """Pause a drawn deployment until ``resume``."""
        with self._lock:
            deployment = self._choose(random.Random(draw))  # noqa: S311 - reproducible by design
            if deployment is not None:
                self._insist(lambda client: client.pause(deployment.id))
                self._paused.add(deployment.id)

    def resume(self) -> None:
        """Resume all paused deployments."""
        with self._lock:
            for paused in sorted(self._paused & self._current.keys()):
                deployment = self._current[paused]
                deployment.learn(self._insist(lambda client, each=paused: client.resume(each)))  # type: ignore[misc]
            self._paused.clear()

    def refresh(self) -> None:
        """Read the generations of all deployments."""
        with self._lock:
            for deployment in self._current.values():
                deployment.learn(self._insist(lambda client, each=deployment: client.show(each.id)))  # type: ignore[misc]

    def delete(self, draw: int) -> None:
        """Delete a drawn deployment."""
        with self._lock:
            deployment = self._choose(random.Random(draw))  # noqa: S311 - reproducible by design
            if deployment is None:
                return

            def delete(client: EnablerClient) -> None:
                try:
                    client.delete(deployment.id)
                except NotFoundError:
                    return  # an earlier attempt was carried out, but not answered

            deployment.learn(self._insist(lambda client: client.show(deployment.id)))
            self._insist(delete)
            deployment.is_deleted = True
            self._deleted.append(self._current.pop(deployment.id))

    def results(self, deployment: Deployment, until: int) -> Results:
        """Return all results of a deployment up to a time (ms)."""
        with self._fog.enabler() as client:
            return client.results(deployment.id, limit=_MAX_RESULTS, end=until)

    def _submit(self, name: str, texts: dict[str, str], scheduler: str) -> Deployment:
        key = f"{self._seed}-{self._submitted}"
        self._submitted += 1
        queries = _queries(texts, scheduler)
        accepted = self._insist(
            lambda client: client.submit(queries, name=name, idempotency_key=key)
        )
        deployment = Deployment(accepted.deployment_id, name, texts, scheduler)
        self._current[deployment.id] = deployment
        deployment.learn(self._insist(lambda client: client.show(deployment.id)))
        return deployment

    def _change(self, draw: int, change: Callable[[Deployment, random.Random], None]) -> None:
        with self._lock:
            chance = random.Random(draw)  # noqa: S311 - reproducible by design
            deployment = self._choose(chance)
            if deployment is None:
                return
            change(deployment, chance)
            queries = _queries(deployment.texts, deployment.scheduler)
            self._insist(lambda client: client.amend(deployment.id, queries))
            deployment.learn(self._insist(lambda client: client.show(deployment.id)))

    def _choose(self, chance: random.Random) -> Deployment | None:
        drawn = [each for each in self._current.values() if each.name != STEADY]
        return chance.choice(drawn) if drawn else None

    def _insist(self, request: Callable[[EnablerClient], T]) -> T:
        """Repeat a request while the enabler, or the storage of its site, is unavailable."""
        deadline = time.monotonic() + _ANSWERED_S
        with self._fog.enabler() as client:
            while True:
                try:
                    return request(client)
                except MistbowError as error:
                    if not is_temporary(error) or time.monotonic() > deadline:
                        raise
                # Between two attempts of a client, which also waits.
                time.sleep(_PAUSE_S)


def is_temporary(error: MistbowError) -> bool:
    """Return whether a repeated request can succeed."""
    return isinstance(error, UnavailableError)


def _queries(texts: Mapping[str, str], scheduler: str) -> str:
    return ";\n".join(statement(name, text, scheduler) for name, text in texts.items())


def _drawn_text(name: str, chance: random.Random) -> str:
    window = chance.choice(_WINDOWS_S)
    form = _DRAWN_QUERIES[name]
    return form.format(*[window] * form.count("{}"))
