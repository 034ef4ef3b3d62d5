"""Timetables of storms: reproducible, and never too much at once."""

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.faults import CI_SEED, FAULTS, faults_of
from tests.chaos.recovery import MIN_DEATHS
from tests.chaos.timetable import ALONE_S, CALM_S, GAP_S, MAX_LASTING, Step, Target, timetable

SITES = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Kind:
    name: str
    weight: int
    lasts_s: tuple[float, float]
    targets: tuple[Target, ...]
    alone: bool


_SITE = st.builds(lambda site: Target((site,)), st.sampled_from(SITES))
_LINK = st.builds(
    lambda pair: Target(tuple(pair)),
    st.lists(st.sampled_from(SITES), min_size=2, max_size=2, unique=True),
)
_LASTS = st.one_of(
    st.just((0.0, 0.0)),
    st.tuples(st.floats(1, 30), st.floats(0, 60)).map(lambda pair: (pair[0], sum(pair))),
)
_KINDS = st.lists(
    st.builds(
        Kind,
        st.sampled_from("klmnop"),
        st.integers(1, 4),
        _LASTS,
        st.lists(_SITE | _LINK | st.just(Target()), min_size=1, max_size=6).map(tuple),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda kind: kind.name,
)
_SEEDS = st.integers(0, 2**63)
_SECONDS = st.floats(0, 300)


@given(_SEEDS, _SECONDS, _KINDS)
def test_timetable_is_the_same_for_the_same_seed(
    seed: int, seconds: float, kinds: list[Kind]
) -> None:
    assert timetable(seed, seconds, kinds) == timetable(seed, seconds, kinds)


@given(_SEEDS, _SECONDS, _KINDS)
def test_all_faults_end_within_the_storm(seed: int, seconds: float, kinds: list[Kind]) -> None:
    known = {kind.name: kind for kind in kinds}
    steps = timetable(seed, seconds, kinds)
    for step in steps:
        kind = known[step.fault]
        assert 0 < step.at_s <= step.until_s <= seconds
        assert step.target in kind.targets
        shortest, longest = kind.lasts_s
        assert shortest - 1e-6 <= step.until_s - step.at_s <= longest + 1e-6
    assert all(later.at_s - step.at_s >= GAP_S[0] - 1e-6 for step, later in pairwise(steps))


@given(_SEEDS, _SECONDS, _KINDS)
def test_lasting_faults_share_no_site_and_are_few(
    seed: int, seconds: float, kinds: list[Kind]
) -> None:
    lasting = [step for step in timetable(seed, seconds, kinds) if step.is_lasting]
    for number, step in enumerate(lasting):
        before = lasting[:number]
        assert sum(each.until_s > step.at_s for each in before) < MAX_LASTING
        for each in before:
            if not set(each.target.sites).isdisjoint(step.target.sites):
                assert step.at_s >= each.until_s + CALM_S


@given(_SEEDS, _SECONDS, _KINDS)
def test_no_other_fault_is_near_a_fault_that_is_alone(
    seed: int, seconds: float, kinds: list[Kind]
) -> None:
    alone = {kind.name for kind in kinds if kind.alone}
    steps = timetable(seed, seconds, kinds)
    for number, step in enumerate(steps):
        if step.fault in alone:
            assert all(each.until_s <= step.at_s - ALONE_S[0] + 1e-6 for each in steps[:number])
            assert all(each.at_s >= step.at_s + ALONE_S[1] - 1e-6 for each in steps[number + 1 :])


def test_each_fault_occurs_in_a_storm_of_half_an_hour() -> None:
    for seed in range(20):
        assert {step.fault for step in _steps(seed, 1800)} == {each.name for each in FAULTS}


def test_deaths_suffice_for_the_goal_in_a_storm_of_half_an_hour() -> None:
    alone = {each.name for each in FAULTS if each.alone and each.ends_worker}
    for seed in range(20):
        assert sum(step.fault in alone for step in _steps(seed, 1800)) >= MIN_DEATHS


def test_each_fault_occurs_in_the_storm_of_ci_and_a_process_is_frozen_for_long() -> None:
    steps = _steps(CI_SEED, 180)
    assert {step.fault for step in steps} == {each.name for each in faults_of(180)}
    frozen = [step for step in steps if step.fault == "process frozen"]
    longest = max(frozen, key=lambda step: step.until_s - step.at_s)
    assert longest.until_s - longest.at_s > 55
    # No other fault hits the frozen process, which would end the fault.
    others = {step.target for step in steps if longest.at_s < step.at_s < longest.until_s}
    assert longest.target not in others


def test_most_faults_occur_in_a_storm_of_three_minutes() -> None:
    for seed in range(20):
        steps = _steps(seed, 180)
        assert len({step.fault for step in steps}) >= 0.6 * len(FAULTS)
        assert len(steps) >= 180 / GAP_S[1] / 2


def _steps(seed: int, seconds: float) -> tuple[Step, ...]:
    return timetable(seed, seconds, faults_of(seconds))
