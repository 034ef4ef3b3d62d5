"""Running a scenario: each step at its time."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mistbow.clock import Clock, system_clock
from mistbow.errors import MistbowError
from mistbow.fog_emulation.backend import Backend, apply
from mistbow.fog_emulation.timetable import Effect, Step


@dataclass(frozen=True, slots=True)
class Done:
    """What was done when (ms since the epoch), and why not, where it failed."""

    at: int
    due: int
    effect: Effect
    error: str | None


def run_scenario(
    backend: Backend,
    steps: Iterable[Step],
    *,
    clock: Clock = system_clock,
    sleep: Callable[[float], None] = time.sleep,
    report: Callable[[Done], None] = lambda _: None,
) -> tuple[Done, ...]:
    """Do each step at its time and return all that was done.

    What fails is reported and does not keep the rest from being done. Times count from the
    beginning, so that a slow step does not move those after it.
    """
    beginning = clock()
    done = []
    for step in steps:
        due = beginning + step.at_s * 1000
        sleep(max(0.0, (due - clock()) / 1000))
        for effect in step.effects:
            done.append(_attempt(backend, effect, due, clock))
            report(done[-1])
    return tuple(done)


def _attempt(backend: Backend, effect: Effect, due: int, clock: Clock) -> Done:
    at = clock()
    try:
        apply(backend, effect)
    except MistbowError as error:
        return Done(at, due, effect, error.message)
    return Done(at, due, effect, None)
