"""A test kit for schedulers: checks any scheduler against the rules of ``Decision``.

A test of a scheduler in another package is ``assert problems(MyScheduler) == []``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from analytics_enabler.scheduling.builtin.eligibility import candidate_nodes, restrict
from analytics_enabler.scheduling.interface import Decision, Scheduler
from analytics_enabler.scheduling.model.constraints import Constraint
from analytics_enabler.scheduling.model.jobs import Job, Placement, Setting, Task, TaskStream
from analytics_enabler.scheduling.model.snapshot import Fog, Link, Node
from analytics_enabler.scheduling.sandbox.validation import violations

_NOISE_MS = 1.0
"""The change of latencies (ms) that must move no task."""

_NO_SETTINGS: Mapping[str, Setting] = {}


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """An input of a scheduler."""

    name: str
    jobs: tuple[Job, ...]
    fog: Fog


def problems(
    make: Callable[[], Scheduler], settings: Mapping[str, Setting] = _NO_SETTINGS
) -> list[str]:
    """Return the violations of the rules by a scheduler, for fixed scenarios; empty: none.

    ``make``: returns a new instance of the scheduler. Checked are: capacity, pinned tasks, the
    options PLACEMENT_ON and DEDICATED, suspected and lost nodes, determinism, and stability if
    nothing or little changes.
    """
    found = []
    for scenario in scenarios():
        try:
            found += [f"{scenario.name}: {each}" for each in _check(make, settings, scenario)]
        except Exception as error:
            found.append(f"{scenario.name}: the scheduler raised {error!r}")
    return found


def scenarios() -> list[Scenario]:
    """Return the scenarios: a city that has capacity, lacks it, loses nodes, or confines jobs."""
    city, jobs = _city(), (_over_sites("a"), _over_sites("b"), _tree("c"))
    tight = city.with_nodes(
        msgspec.structs.replace(node, cores_free=0.5, memory_free_mb=600.0) for node in city.nodes
    )
    suspected = city.with_nodes(
        msgspec.structs.replace(node, suspected=node.name == "cloud1") for node in city.nodes
    )
    lost = city.with_nodes(node for node in city.nodes if node.name != "north1")
    north = _over_sites("a", Constraint(label="zone", value="north"))
    alone = _over_sites("d", Constraint(label="zone", value="cloud", dedicated=True))
    return [
        Scenario(name="enough capacity", jobs=jobs, fog=city),
        Scenario(name="little capacity", jobs=jobs, fog=tight),
        Scenario(name="no node", jobs=jobs, fog=city.with_nodes(())),
        Scenario(name="suspected node", jobs=jobs, fog=suspected),
        Scenario(name="lost node", jobs=jobs, fog=lost),
        Scenario(name="no measured link", jobs=jobs, fog=Fog(city.nodes)),
        Scenario(name="PLACEMENT_ON", jobs=(north,), fog=_permitted(north, (north,), city)),
        Scenario(name="DEDICATED", jobs=(alone,), fog=_permitted(alone, (alone, *jobs), city)),
        Scenario(name="beside DEDICATED", jobs=jobs, fog=_permitted(jobs[0], (alone, *jobs), city)),
    ]


def _check(
    make: Callable[[], Scheduler], settings: Mapping[str, Setting], scenario: Scenario
) -> Iterator[str]:
    jobs, fog = scenario.jobs, scenario.fog

    def decide(jobs: Sequence[Job], fog: Fog, current: Placement) -> Decision:
        scheduler = make()
        scheduler.prepare(settings)
        return scheduler.schedule(tuple(jobs), fog, current)

    first = decide(jobs, fog, Placement())
    yield from violations(first, jobs, fog)
    if msgspec.json.decode(msgspec.json.encode(first), type=Decision) != first:
        yield "the decision changes on its way through JSON"
    if _nodes(decide(jobs, fog, Placement())) != _nodes(first):
        yield "equal inputs give different decisions"
    reordered = Fog(fog.nodes[::-1], fog.links[::-1])
    if _nodes(decide(jobs[::-1], reordered, Placement())) != _nodes(first):
        yield "the order of jobs, nodes and links changes the decision"
    for name in sorted({at.node for at in first.placement.assignments}):
        if fog.by_name[name].suspected:
            yield f"{name} is suspected, but gets tasks"
    noisy = Fog(fog.nodes, tuple(_noisy(link) for link in fog.links))
    for change, later in (("nothing changed", fog), ("only noise changed", noisy)):
        again = decide(jobs, later, first.placement)
        yield from (f"after a decision: {each}" for each in violations(again, jobs, later))
        for task, nodes in _nodes(first).items():
            if _nodes(again).get(task) != nodes:
                yield f"{'/'.join(task)} moves, although {change}"
    yield from _after_a_loss(decide, scenario, first.placement)


def _after_a_loss(
    decide: Callable[[Sequence[Job], Fog, Placement], Decision],
    scenario: Scenario,
    current: Placement,
) -> Iterator[str]:
    """Yield the violations after the loss of one of the nodes of a placement."""
    for lost in sorted({at.node for at in current.assignments}):
        left = scenario.fog.with_nodes(node for node in scenario.fog.nodes if node.name != lost)
        again = decide(scenario.jobs, left, current)
        yield from (
            f"after the loss of {lost}: {each}" for each in violations(again, scenario.jobs, left)
        )


def _nodes(decision: Decision) -> dict[tuple[str, str], tuple[tuple[str, float], ...]]:
    """Return (job, task) -> its nodes, each with its share."""
    by_task = decision.placement.by_task
    return {task: tuple(sorted((at.node, at.share) for at in by_task[task])) for task in by_task}


def _noisy(link: Link) -> Link:
    return msgspec.structs.replace(link, latency_ms=link.latency_ms + _NOISE_MS)


def _permitted(job: Job, jobs: Sequence[Job], fog: Fog) -> Fog:
    """Return the fog that the enabler would give to the scheduler of a job."""
    return restrict(fog, candidate_nodes(jobs, fog, Placement())[job.id])


def _city() -> Fog:
    """Return a fog: a cloud of two nodes, two nodes in the north, and one in the south."""
    sizes = {"cloud1": 8.0, "cloud2": 8.0, "north1": 2.0, "north2": 2.0, "south1": 2.0}
    latencies = {("north", "cloud"): 20.0, ("south", "cloud"): 50.0, ("north", "south"): 10.0}
    ends = [*latencies, *((target, source) for source, target in latencies)]
    return Fog(
        tuple(
            Node(
                name=name,
                site=name[:-1],
                cores=cores,
                cores_free=cores,
                memory_mb=1024 * cores,
                memory_free_mb=1024 * cores,
                region=name[:-1],
                labels={"zone": name[:-1]},
            )
            for name, cores in sizes.items()
        ),
        tuple(
            Link(
                source=source,
                target=target,
                latency_ms=latencies.get((source, target), latencies.get((target, source), 0.0)),
            )
            for source, target in ends
        ),
    )


def _task(name: str, pinned: str | None, confined: Constraint | None) -> Task:
    return Task(
        id=name,
        cores=0.4,
        memory_mb=300.0,
        pinned=pinned,
        remotely_readable=pinned is not None,
        labels={} if confined is None else {confined.label: confined.value},
        points_per_s=0.0 if pinned is None else 100.0,
        check_core_s=0.001,
    )


def _over_sites(name: str, confined: Constraint | None = None) -> Job:
    """Return the job of an insight over two sites: a partial at each site, and a merge."""
    partials = [_task(f"at-{site}", site, confined) for site in ("north", "south")]
    return Job(
        id=name,
        tasks=(*partials, _task("merge", None, confined)),
        streams=tuple(
            TaskStream(source=each.id, target="merge", bytes_per_s=1000.0) for each in partials
        ),
        scheduler="",
        sink="cloud",
        confined=confined,
    )


def _tree(name: str) -> Job:
    """Return a job in which two operators follow each other after the data of one site."""
    ends = (("data", "filter"), ("filter", "merge"))
    return Job(
        id=name,
        tasks=(
            _task("data", "south", None),
            _task("filter", None, None),
            _task("merge", None, None),
        ),
        streams=tuple(TaskStream(source=a, target=b, bytes_per_s=1000.0) for a, b in ends),
        scheduler="",
        sink="north",
    )
