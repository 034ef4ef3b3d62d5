"""``latency``: the critical path is short, within CPU and memory (the specification, 4.2.4)."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from mistbow.errors import InvalidRequestError
from mistbow.fog.jobs import Job, Placement, Setting, critical_path_ms
from mistbow.fog.snapshot import Fog
from mistbow.schedulers.fair import Places, as_placement, keep, spread
from mistbow.schedulers.interface import Decision
from mistbow.schedulers.room import Room, fitting, in_turn, refusals
from mistbow.schedulers.search import IMPOSSIBLE, Problem, cheapest

# Steps of the search for all jobs together, some 5 µs each: a time limit would be no pure function.
_STEPS = 40_000
_MARGIN = 0.1


class LatencySettings(msgspec.Struct, frozen=True):
    """What a query may set."""

    margin: Annotated[
        float,
        msgspec.Meta(
            ge=0,
            lt=1,
            description="by which part of its critical path a job must gain to be moved, "
            "from 0 to below 1",
        ),
    ] = _MARGIN


class Latency:
    """Makes the slowest path from data to result fast; what runs moves only for a clear gain."""

    Settings = LatencySettings

    def __init__(self) -> None:
        self._margin = _MARGIN

    def prepare(self, settings: Mapping[str, Setting]) -> None:
        """Take the settings."""
        try:
            self._margin = msgspec.convert(dict(settings), LatencySettings, strict=False).margin
        except msgspec.ValidationError:
            raise InvalidRequestError(
                f"margin must be from 0 to 1, not {settings['margin']!r}"
            ) from None

    def schedule(self, jobs: tuple[Job, ...], fog: Fog, current: Placement) -> Decision:
        """Place one job after the other, each as well as the others leave it room."""
        jobs = tuple(in_turn(jobs, current))
        margin = self._margin if current.of(jobs).assignments else 0.0
        found = _one_by_one(jobs, fog, current, margin)
        # Of several jobs the first may take the room that others need more: then begin evenly.
        even = as_placement(spread(jobs, fog, current))
        if _clearly_less(_cost(jobs, fog, even), _cost(jobs, fog, found), margin):
            found = _one_by_one(jobs, fog, even, 0.0)
        return Decision(found, tuple(refusals(jobs, fog, found)))


def _one_by_one(jobs: Sequence[Job], fog: Fog, start: Placement, margin: float) -> Placement:
    room = Room(fog)
    places = {job.id: keep(job, fog, start, room) for job in jobs}
    for job in jobs:
        home = places[job.id]
        for task in job.tasks:
            if task.id in home:
                room.release(task, home[task.id])
        places[job.id] = _place(job, fog, room, home, margin, _STEPS // len(jobs))
        for task in job.tasks:
            if task.id in places[job.id]:
                room.take(task, places[job.id][task.id])
    return as_placement(places)


def _place(job: Job, fog: Fog, room: Room, home: Places, margin: float, steps: int) -> Places:
    choices = {task.id: fitting(task, fog) for task in job.tasks}
    best, places = cheapest(Problem(job, fog, choices, home), room, steps)
    if home:
        # What runs stays, and only what does not is placed: unless the other is clearly better.
        staying = {**choices, **{task: [node] for task, node in home.items()}}
        stay, stay_places = cheapest(Problem(job, fog, staying, home), room, steps)
        if stay != IMPOSSIBLE and not _clearly_less(best[:2], stay[:2], margin):
            return stay_places
    return places


def _clearly_less(one: tuple[int, float], other: tuple[int, float], margin: float) -> bool:
    return one[0] < other[0] or (one[0] == other[0] and one[1] < (1 - margin) * other[1])


def _cost(jobs: Sequence[Job], fog: Fog, placement: Placement) -> tuple[int, float]:
    """Return how many tasks have no place, and the sum of the critical paths in ms."""
    missing = sum(len(job.tasks) for job in jobs) - len(placement.by_task)
    return missing, sum(critical_path_ms(job, placement, fog) for job in jobs)
