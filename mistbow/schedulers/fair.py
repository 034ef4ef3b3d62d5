"""``fair``: load is spread evenly; the network plays no part (the specification, 4.2.4)."""

from collections.abc import Mapping, Sequence

from mistbow.fog.jobs import Assignment, Job, Placement, Setting, Task
from mistbow.fog.snapshot import Fog
from mistbow.schedulers.interface import Decision
from mistbow.schedulers.room import Room, fitting, in_turn, refusals

# A task moves only if the load of the fuller of two nodes falls by more than this.
_WORTH_A_MOVE = 0.1

Places = dict[str, str]
"""For each placed task of a job, its node."""


class Fair:
    """Puts each task on the node that is least loaded with it, and lets running ones stay."""

    def prepare(self, settings: Mapping[str, Setting]) -> None:
        """Take no settings."""

    def schedule(self, jobs: tuple[Job, ...], fog: Fog, current: Placement) -> Decision:
        """Keep what runs where it can, place the rest, then even out what is very uneven."""
        placement = as_placement(spread(jobs, fog, current))
        return Decision(placement, tuple(refusals(in_turn(jobs, current), fog, placement)))


def as_placement(places: Mapping[str, Places]) -> Placement:
    """Return the placement of jobs by their ids."""
    return Placement(
        tuple(
            Assignment(job=job, task=task, node=node)
            for job in sorted(places)
            for task, node in sorted(places[job].items())
        )
    )


def spread(jobs: Sequence[Job], fog: Fog, current: Placement) -> dict[str, Places]:
    """Return where each job's tasks run; a job that fits nowhere has none."""
    room = Room(fog)
    turns = in_turn(jobs, current)
    places = {job.id: keep(job, fog, current, room) for job in turns}
    for job in turns:
        if not _complete(job, fog, places[job.id], room):
            for task in job.tasks:
                if task.id in places[job.id]:
                    room.release(task, places[job.id].pop(task.id))
    _even_out(turns, fog, places, room)
    return places


def keep(job: Job, fog: Fog, current: Placement, room: Room) -> Places:
    """Return the tasks of a job that can stay where they run, and take their room."""
    kept: Places = {}
    for task in job.in_order:
        match current.by_task.get((job.id, task.id), ()):
            case (at,) if at.node in fitting(task, fog) and room.lack(task, at.node) is None:
                room.take(task, at.node)
                kept[task.id] = at.node
    return kept


def pointless(job: Job, places: Places) -> bool:
    """Whether a job has data but none of it is read, so that it need not run."""
    pinned = [task.id for task in job.tasks if task.pinned is not None]
    return bool(pinned) and not any(task in places for task in pinned)


def _complete(job: Job, fog: Fog, places: Places, room: Room) -> bool:
    # Those with the least choice first, and of these the largest.
    missing = [task for task in job.in_order if task.id not in places]
    for task in sorted(missing, key=lambda t: (t.pinned is None, -t.cores, -t.memory_mb, t.id)):
        nodes = [node for node in fitting(task, fog) if room.lack(task, node) is None]
        if nodes:
            places[task.id] = _least_loaded(nodes, task, room)
            room.take(task, places[task.id])
        elif task.pinned is None:
            return False
    return not pointless(job, places)


def _even_out(jobs: Sequence[Job], fog: Fog, places: dict[str, Places], room: Room) -> None:
    tasks = [(job.id, task) for job in jobs for task in job.in_order if task.id in places[job.id]]
    # Each move makes the fuller of two nodes less full, so this ends; the bound keeps it short.
    for _ in range(len(tasks)):
        tasks.sort(key=lambda item: (-room.load(places[item[0]][item[1].id]), item[0], item[1].id))
        if not any(_move(task, fog, places[job], room) for job, task in tasks):
            return


def _move(task: Task, fog: Fog, places: Places, room: Room) -> bool:
    here = places[task.id]
    nodes = [n for n in fitting(task, fog) if n != here and room.lack(task, n) is None]
    if not nodes:
        return False
    there = _least_loaded(nodes, task, room)
    if room.load(there, task) >= room.load(here) - _WORTH_A_MOVE:
        return False
    room.release(task, here)
    room.take(task, there)
    places[task.id] = there
    return True


def _least_loaded(nodes: Sequence[str], task: Task, room: Room) -> str:
    return min(nodes, key=lambda node: (room.load(node, task), node))
