"""The table of faults: how each kind of fault is injected and healed, where, and how often.

A new kind of fault is one entry of ``FAULTS``.
"""

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import combinations

from fog_emulation.topology import Shape
from tests.chaos.deployments import Deployments
from tests.chaos.fog import CENTRE, ROLES, SERVICES, SITES, ChaosFog
from tests.chaos.senders import AHEAD_MS, SiteSender
from tests.chaos.timetable import Step, Target

_CLEAR = Shape()
_CUT = Shape(loss=1.0)
_LOSSY = Shape(loss=0.2)
_SLOW = Shape(rate_bps=2_000_000, delay_ms=150, deviation_ms=30)


@dataclass(frozen=True, slots=True)
class World:
    """All that faults can change: the fog, the senders (site -> sender), and the deployments."""

    fog: ChaosFog
    senders: dict[str, SiteSender]
    deployments: Deployments


Act = Callable[[World, Step], object]


def _always(_: World, __: Step) -> bool:
    return True


def _nothing(_: World, __: Step) -> None:
    """Heal a momentary fault."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault, with the fields of ``timetable.Kind``.

    ``inject``, ``heal``: what a step does at its beginning and its end. ``possible``: the
    precondition; if it is not fulfilled, the step is skipped. ``ends_worker``: whether a worker is
    dead after the fault.
    """

    name: str
    weight: int
    targets: tuple[Target, ...]
    inject: Act
    heal: Act = _nothing
    lasts_s: tuple[float, float] = (0, 0)
    possible: Callable[[World, Step], bool] = _always
    ends_worker: bool = False
    alone: bool = False


def _of_role(role: str) -> tuple[Target, ...]:
    return tuple(Target((site,), each) for site, each in SERVICES if each == role)


_SITES = tuple(Target((site,)) for site in SITES)
_OTHER_SITES = tuple(Target((site,)) for site in SITES if site != CENTRE)
_LINKS = tuple(Target(pair) for pair in combinations(SITES, 2))
_ANY_SERVICE = tuple(Target((site,), role) for site, role in SERVICES)
_NOWHERE = (Target(),)


def _runs(world: World, step: Step) -> bool:
    return world.fog.has(*_service(step))


def _service(step: Step) -> tuple[str, str]:
    [site] = step.target.sites
    return site, step.target.role


def _kill(world: World, step: Step) -> None:
    world.fog.kill(*_service(step))


def _kill_descendant(world: World, step: Step) -> None:
    chance = random.Random(step.draw)  # noqa: S311 - reproducible by design
    found = world.fog.descendants(*_service(step))
    if found:
        chance.choice(sorted(found, key=lambda each: each.pid)).kill()


def _freeze(world: World, step: Step) -> None:
    world.fog.freeze(*_service(step))


def _resume(world: World, step: Step) -> None:
    world.fog.resume(*_service(step))


def _all_run(world: World, step: Step) -> bool:
    [site] = step.target.sites
    return all(world.fog.has(site, role) for role in _roles_of(step))


def _leave(world: World, step: Step) -> None:
    [site] = step.target.sites
    for role in reversed(_roles_of(step)):
        world.fog.stop(site, role)


def _join(world: World, step: Step) -> None:
    [site] = step.target.sites
    for role in _roles_of(step):
        world.fog.start(site, role)


def _roles_of(step: Step) -> tuple[str, ...]:
    return (step.target.role,) if step.target.role else ROLES


def _shape_link(shape: Shape) -> Act:
    return lambda world, step: world.fog.shape_link(*step.target.sites, shape)


def _shape_site(shape: Shape) -> Act:
    return lambda world, step: world.fog.shape_site(*step.target.sites, shape)


def _set_clock(ahead_ms: int) -> Act:
    def act(world: World, step: Step) -> None:
        [site] = step.target.sites
        world.senders[site].clock_ahead_ms = ahead_ms

    return act


def _has_drawn(world: World, _: Step) -> bool:
    return bool(world.deployments.drawn)


FAULTS: tuple[Fault, ...] = (
    Fault("worker killed", 3, _of_role("worker"), _kill, possible=_runs, ends_worker=True),
    Fault(
        "worker killed alone",
        4,
        _of_role("worker"),
        _kill,
        possible=_runs,
        ends_worker=True,
        alone=True,
    ),
    Fault("process of Spark killed", 1, _of_role("worker"), _kill_descendant, possible=_runs),
    Fault("agent killed", 2, _of_role("agent"), _kill, possible=_runs),
    Fault("Ignite killed", 2, _of_role("ignite"), _kill, possible=_runs),
    Fault("enabler killed", 1, _of_role("enabler"), _kill, possible=_runs),
    Fault("process frozen", 2, _ANY_SERVICE, _freeze, _resume, (20, 60), _runs),
    Fault("link cut", 2, _LINKS, _shape_link(_CUT), _shape_link(_CLEAR), (5, 40)),
    Fault("link lossy", 1, _LINKS, _shape_link(_LOSSY), _shape_link(_CLEAR), (5, 40)),
    Fault("site cut off", 1, _SITES, _shape_site(_CUT), _shape_site(_CLEAR), (5, 40)),
    Fault("links slow", 1, _SITES, _shape_site(_SLOW), _shape_site(_CLEAR), (10, 40)),
    Fault("site left", 1, _OTHER_SITES, _leave, _join, (10, 40), _all_run),
    Fault("worker left", 1, _of_role("worker"), _leave, _join, (10, 40), _all_run),
    Fault(
        "clock 10 minutes ahead", 1, _SITES, _set_clock(AHEAD_MS), _set_clock(0), lasts_s=(5, 30)
    ),
    Fault(
        "submitted",
        2,
        _NOWHERE,
        lambda world, step: world.deployments.submit(step.draw),
        possible=lambda world, _: world.deployments.has_room,
    ),
    Fault(
        "amended",
        2,
        _NOWHERE,
        lambda world, step: world.deployments.amend(step.draw),
        possible=_has_drawn,
    ),
    Fault(
        "scheduler changed",
        1,
        _NOWHERE,
        lambda world, step: world.deployments.change_scheduler(step.draw),
        possible=_has_drawn,
    ),
    Fault(
        "paused",
        1,
        _NOWHERE,
        lambda world, step: world.deployments.pause(step.draw),
        lambda world, _: world.deployments.resume(),
        (10, 30),
        _has_drawn,
    ),
    Fault(
        "deleted",
        1,
        _NOWHERE,
        lambda world, step: world.deployments.delete(step.draw),
        possible=_has_drawn,
    ),
)

CI_SEED = 2558
"""The seed of the storm of three minutes in CI, in which each kind of fault occurs."""

_LONG_S = 600.0


def faults_of(seconds: float, names: Collection[str] = ()) -> tuple[Fault, ...]:
    """Return the kinds of faults for a storm; a short one has no time for faults ``alone``.

    ``names``: the names of the only kinds; empty: all kinds. Raises ``ValueError`` for an unknown
    name.
    """
    if unknown := set(names) - {each.name for each in FAULTS}:
        raise ValueError(f"unknown faults: {', '.join(sorted(unknown))}")
    if names:
        return tuple(each for each in FAULTS if each.name in names)
    return tuple(each for each in FAULTS if seconds >= _LONG_S or not each.alone)
