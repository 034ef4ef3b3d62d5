"""A storm: the faults of a timetable, injected and healed at their times."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import psutil

from mistbow.clock import system_clock
from tests.chaos.faults import FAULTS, World
from tests.chaos.timetable import Step

_THREADS = 32
_END_S = 300.0
_BY_NAME = {fault.name: fault for fault in FAULTS}


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """A fault that was injected; times in ms since the epoch.

    ``until``: when the fault was healed; None: a momentary fault.
    """

    step: Step
    at: int
    until: int | None

    @property
    def ended_worker(self) -> bool:
        """Whether the fault killed a worker."""
        return _BY_NAME[self.step.fault].ends_worker


@dataclass(frozen=True, slots=True)
class StormLog:
    """What happened in a storm: the injected faults in the order of time, and the skipped steps."""

    injected: tuple[InjectedFault, ...]
    skipped: tuple[Step, ...]


class Storm:
    """Carries out the steps of a timetable; slow steps do not delay the others."""

    def __init__(self, world: World, steps: Sequence[Step]) -> None:
        self._world = world
        self._steps = steps
        self._lock = threading.Lock()
        self._injected: list[InjectedFault] = []
        self._skipped: list[Step] = []

    def run(self) -> StormLog:
        """Inject and heal all faults; return after the last of them.

        Raises the first error of a step.
        """
        began = time.monotonic()
        with ThreadPoolExecutor(_THREADS, "storm") as pool:
            begun: dict[Step, Future[int | None]] = {}
            ended: list[Future[None]] = []
            for at_s, step, is_end in _in_order_of_time(self._steps):
                time.sleep(max(0.0, began + at_s - time.monotonic()))
                if is_end:
                    ended.append(pool.submit(self._heal, step, begun[step]))
                else:
                    begun[step] = pool.submit(self._inject, step)
            for each in [*begun.values(), *ended]:
                each.result(_END_S)
        return StormLog(
            tuple(sorted(self._injected, key=lambda each: each.at)), tuple(self._skipped)
        )

    def _inject(self, step: Step) -> int | None:
        """Return the time at which a fault was injected; None: its precondition was false."""
        fault = _BY_NAME[step.fault]
        at = system_clock()
        try:
            if not fault.possible(self._world, step):
                return self._skip(step)
            fault.inject(self._world, step)
        except psutil.NoSuchProcess:  # the process ended at the same time
            return self._skip(step)
        if not step.is_lasting:
            self._record(InjectedFault(step, at, None))
        return at

    def _heal(self, step: Step, begun: Future[int | None]) -> None:
        at = begun.result(_END_S)
        if at is not None:
            _BY_NAME[step.fault].heal(self._world, step)
            self._record(InjectedFault(step, at, system_clock()))

    def _record(self, fault: InjectedFault) -> None:
        with self._lock:
            self._injected.append(fault)

    def _skip(self, step: Step) -> None:
        with self._lock:
            self._skipped.append(step)


def _in_order_of_time(steps: Sequence[Step]) -> list[tuple[float, Step, bool]]:
    """Return (time, step, whether the step ends) for the beginnings and ends of all steps."""
    begins = [(step.at_s, step, False) for step in steps]
    ends = [(step.until_s, step, True) for step in steps if step.is_lasting]
    return sorted([*begins, *ends], key=lambda each: each[0])
