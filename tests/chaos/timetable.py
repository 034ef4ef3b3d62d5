"""The timetable of a storm: which fault is injected when, where and for how long, from a seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

GAP_S = (4.0, 12.0)
"""The shortest and the longest time (s) between two faults."""

MAX_LASTING = 2
"""The maximum number of faults that last at the same time."""

CALM_S = 5.0
"""The minimum time (s) from the end of a lasting fault to the next one at the same site."""

ALONE_S = (45.0, 12.0)
"""The time (s) before and after a fault ``alone`` in which no other fault begins or lasts.

Within the time before it, two cores have started again what earlier faults ended, also a worker
with Spark and its fragments.
"""


@dataclass(frozen=True, slots=True)
class Target:
    """What a fault hits: a site, both ends of a link, or a process (``role``) of a site.

    ``sites``: empty: the fault hits no particular site.
    """

    sites: tuple[str, ...] = ()
    role: str = ""

    def __str__(self) -> str:
        place = "–".join(self.sites)
        return f"{self.role} at {place}" if self.role else place


class Kind(Protocol):
    """A kind of fault, as far as a timetable needs it.

    ``weight``: how often the kind occurs, relative to other kinds. ``lasts_s``: the shortest and
    the longest duration (s); (0, 0): the fault is momentary. ``targets``: all possible targets.
    ``alone``: whether the storm pauses before and after the fault, for ``ALONE_S``.
    """

    @property
    def name(self) -> str: ...

    @property
    def weight(self) -> int: ...

    @property
    def lasts_s(self) -> tuple[float, float]: ...

    @property
    def targets(self) -> Sequence[Target]: ...

    @property
    def alone(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Step:
    """One fault of a timetable.

    ``at_s``: the time (s) after the start of the storm. ``until_s``: when the fault is healed; a
    momentary fault has the same time there. ``draw``: the seed of the choices that depend on the
    state of the fog, such as which deployment is deleted.
    """

    at_s: float
    until_s: float
    fault: str
    target: Target
    draw: int

    @property
    def is_lasting(self) -> bool:
        """Whether the fault lasts until it is healed."""
        return self.until_s > self.at_s


def timetable(seed: int, seconds: float, kinds: Sequence[Kind]) -> tuple[Step, ...]:
    """Return the faults of a storm of ``seconds``, in the order of time; equal for equal seeds.

    Kinds are drawn like cards from a deck in which each kind has ``weight`` cards, so each kind
    occurs in a long storm. All faults end with the storm. At most ``MAX_LASTING`` faults last at
    the same time, at different sites, and none beside a fault ``alone``.
    """
    chance = random.Random(seed)  # noqa: S311 - reproducible by design
    cards = [kind for kind in kinds for _ in range(kind.weight)]
    deck: list[Kind] = []
    steps: list[Step] = []
    at = chance.uniform(*GAP_S)
    while at < seconds:
        drawn = next(
            (
                (place, step)
                for place, kind in enumerate(deck)
                if (step := _step(chance, kind, at, seconds, steps)) is not None
            ),
            None,
        )
        if drawn is None:
            deck += chance.sample(cards, len(cards))
            if not any(_step(chance, kind, at, seconds, steps) for kind in cards):
                at += GAP_S[0]
            continue
        place, step = drawn
        kind = deck.pop(place)
        steps.append(step)
        at = step.at_s + (ALONE_S[1] if kind.alone else chance.uniform(*GAP_S))
    return tuple(steps)


def _step(
    chance: random.Random, kind: Kind, at: float, seconds: float, earlier: Sequence[Step]
) -> Step | None:
    """Return a fault at a time; None if no target is free or the rest of the storm is too short."""
    draw, lasts = chance.randrange(2**32), chance.uniform(*kind.lasts_s)
    if kind.alone:
        at = max([at, *(each.until_s + ALONE_S[0] for each in earlier)])
        if at + ALONE_S[1] > seconds:
            return None
    if kind.lasts_s == (0, 0):
        return Step(at, at, kind.name, chance.choice(kind.targets), draw)
    if at + kind.lasts_s[0] > seconds:
        return None
    lasting = [each for each in earlier if each.is_lasting and at < each.until_s]
    recent = [each for each in earlier if each.is_lasting and at < each.until_s + CALM_S]
    taken = {site for each in recent for site in each.target.sites}
    free = [each for each in kind.targets if taken.isdisjoint(each.sites)]
    if len(lasting) >= MAX_LASTING or not free:
        return None
    return Step(at, min(at + lasts, seconds), kind.name, chance.choice(free), draw)
