"""Runs a scenario: applies the effects of each step at the time of the step."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fog_emulation.backend import Backend, apply
from fog_emulation.timetable import Effect, ScenarioStep
from mistbow.clock import Clock, system_clock
from mistbow.errors import MistbowError


@dataclass(frozen=True, slots=True)
class EffectOutcome:
    """The outcome of an effect: when the effect was applied and was due (ms since the epoch).

    ``error``: the message of the error; None: the effect succeeded.
    """

    at: int
    due: int
    effect: Effect
    error: str | None


def run_scenario(
    backend: Backend,
    steps: Iterable[ScenarioStep],
    *,
    clock: Clock = system_clock,
    sleep: Callable[[float], None] = time.sleep,
    report: Callable[[EffectOutcome], None] = lambda _: None,
) -> tuple[EffectOutcome, ...]:
    """Apply the effects of each step at the time of the step; return the outcomes.

    After a failed effect, the following effects and steps still run. Times are measured from the
    start of the scenario, so that a slow step does not delay the following steps.
    """
    beginning = clock()
    outcomes: list[EffectOutcome] = []
    for step in steps:
        due = beginning + step.at_s * 1000
        sleep(max(0.0, (due - clock()) / 1000))
        for effect in step.effects:
            outcomes.append(_apply(backend, effect, due, clock))
            report(outcomes[-1])
    return tuple(outcomes)


def _apply(backend: Backend, effect: Effect, due: int, clock: Clock) -> EffectOutcome:
    at = clock()
    try:
        apply(backend, effect)
    except MistbowError as error:
        return EffectOutcome(at, due, effect, error.message)
    return EffectOutcome(at, due, effect, None)
