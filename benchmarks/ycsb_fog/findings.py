"""Sentences about the results: which store is faster, and what replicas and nodes cost."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from benchmarks.ycsb_fog.plan import SPECIFIED_NODES, SPECIFIED_OPERATIONS, STORES
from benchmarks.ycsb_fog.results import Case, Summary

_TOLERANCE = 0.05
"""The difference between rates that counts as none."""

_SATURATED = 0.9
"""The share of busy cores from which on the host limits a store."""

_Cases = Mapping[Case, Summary]


def findings(found: Sequence[Summary]) -> list[str]:
    """Return what the results say: a sentence or a few for each comparison."""
    cases = {each.case: each for each in found}
    sentences = [*_comparisons(cases)]
    for store in STORES:
        theirs = {case: each for case, each in cases.items() if case.store == store}
        if theirs:
            sentences += [
                *_costs_of_replicas(store, theirs),
                *_growth(store, theirs),
                *_more_operations(store, theirs),
                *_load(store, theirs),
            ]
    return [*sentences, *_limits(found), *_days(found), *_not_measured(cases)]


def _comparisons(cases: _Cases) -> Iterator[str]:
    for workload, replicas in sorted({(case.workload, case.replicas) for case in cases}):
        of_kind = {
            case: each
            for case, each in cases.items()
            if (case.workload, case.replicas) == (workload, replicas)
        }
        pairs = _pairs(of_kind, lambda case: case.store == "Mistbow", store="Redis")
        if pairs:
            ratios = _ratios(pairs)
            faster = sum(ratio > 1 + _TOLERANCE for ratio in ratios)
            slower = sum(ratio < 1 - _TOLERANCE for ratio in ratios)
            ours = _span([each.median("mean_ms") for each, _ in pairs])
            theirs = _span([each.median("mean_ms") for _, each in pairs])
            yield (
                f"Workload {workload}, {'with' if replicas else 'without'} replicas: Redis "
                f"completes {_span(ratios)} times the operations per second of Mistbow. It is "
                f"faster by more than {_TOLERANCE:.0%} in {faster} of {len(ratios)} cases, and "
                f"slower in {slower}. Mean latency: Mistbow {ours} ms, Redis {theirs} ms."
            )


def _costs_of_replicas(store: str, cases: _Cases) -> Iterator[str]:
    pairs = _pairs(cases, lambda case: not case.replicas, replicas=True)
    if pairs:
        behind = max(run.behind_s for _, copied in pairs for run in copied.runs)
        yield (
            f"With replicas, {store} completes {_span(_ratios(pairs))} times the operations per "
            f"second that it completes without. The replicas had all records at most "
            f"{behind:.1f} s after the end of a run."
        )


def _growth(store: str, cases: _Cases) -> Iterator[str]:
    sizes = sorted({case.nodes for case in cases})
    pairs = _pairs(cases, lambda case: case.nodes == sizes[0], nodes=sizes[-1])
    if pairs and len(sizes) > 1:
        yield (
            f"On {sizes[-1]} nodes, {store} completes {_span(_ratios(pairs))} times the operations "
            f"per second of {sizes[0]} nodes."
        )


def _more_operations(store: str, cases: _Cases) -> Iterator[str]:
    counts = sorted({case.operations for case in cases})
    pairs = _pairs(cases, lambda case: case.operations == counts[0], operations=counts[-1])
    if pairs and len(counts) > 1:
        sizes = listed(sorted({each.case.nodes for each, _ in pairs}))
        yield (
            f"In runs of {counts[-1]:,} operations on {sizes} nodes, {store} completes "
            f"{_span(_ratios(pairs))} times the operations per second of runs of {counts[0]:,}."
        )


def _load(store: str, cases: _Cases) -> Iterator[str]:
    shares = [each.median("busy") for each in cases.values()]
    full = sum(share >= _SATURATED for share in shares)
    limits = f": in {full} of {len(shares)} cases the host limits the store" if full else ""
    rest = _span([each.median("rest_cores") for each in cases.values()])
    yield (
        f"Under {store}, the cores of the host are {min(shares):.0%} to {max(shares):.0%} "
        f"busy{limits}. Without requests, its processes use {rest} cores."
    )


def _limits(found: Sequence[Summary]) -> Iterator[str]:
    runs = [run for each in found for run in each.runs]
    if runs:
        round_trip_ms = 2 * min(run.delay_ms for run in runs)
        clients = max(run.clients for run in runs)
        yield (
            f"The links alone take {round_trip_ms:.1f} ms of each operation, so {clients} clients "
            f"complete at most {clients / round_trip_ms * 1000:,.0f} operations per second with "
            f"any store."
        )


def _days(found: Sequence[Summary]) -> Iterator[str]:
    """Yield which sizes were measured on which day, if there are several days."""
    sizes: dict[str, set[int]] = {}
    for each in found:
        for run in each.runs:
            sizes.setdefault(run.day, set()).add(run.nodes)
    if len(sizes) > 1:
        days = "; ".join(
            f"{', '.join(map(str, sorted(sizes[day])))} nodes on {day}" for day in sorted(sizes)
        )
        yield (
            f"Measured on several days: {days}. The host's speed may differ between days, so "
            f"only the stores on fogs of one size are comparable."
        )


def _not_measured(cases: _Cases) -> Iterator[str]:
    """Yield sentences about the absent combinations of measured and specified values."""
    wanted = product(
        {case.workload for case in cases},
        {case.nodes for case in cases}.union(SPECIFIED_NODES),
        {case.operations for case in cases}.union(SPECIFIED_OPERATIONS),
        {case.store for case in cases},
        {case.replicas for case in cases},
    )
    absent = sorted({Case(*each) for each in wanted} - cases.keys())
    begun = {(case.operations, case.nodes) for case in cases}
    sizes: dict[int, set[int]] = {}
    for case in absent:
        if (case.operations, case.nodes) in begun:
            yield (
                f"Not measured: {case.system}, workload {case.workload}, {case.operations:,} "
                f"operations on {case.nodes} nodes."
            )
        else:
            sizes.setdefault(case.operations, set()).add(case.nodes)
    for count, of_count in sorted(sizes.items()):
        yield f"Not measured: runs of {count:,} operations on {listed(sorted(of_count))} nodes."


def _pairs(
    cases: _Cases, chosen: Callable[[Case], bool], **change: Any
) -> list[tuple[Summary, Summary]]:
    """Return the chosen cases, each with the case that differs from it by ``change``."""
    return [
        (each, cases[other])
        for case, each in cases.items()
        if chosen(case) and (other := case._replace(**change)) in cases
    ]


def _ratios(pairs: Sequence[tuple[Summary, Summary]]) -> list[float]:
    return [other.rate / each.rate for each, other in pairs]


def listed(numbers: Sequence[int]) -> str:
    """Return numbers as text.

    >>> listed([6]), listed([5000, 20000]), listed([6, 10, 14])
    ('6', '5,000 and 20,000', '6, 10 and 14')
    """
    *first, last = (f"{number:,}" for number in numbers)
    return f"{', '.join(first)} and {last}" if first else last


def _span(values: Sequence[float]) -> str:
    """Return the least and the greatest value as text.

    >>> _span([2.51, 1.0]), _span([1.0])
    ('1.0 to 2.5', '1.0')
    """
    least, greatest = (_short(value) for value in (min(values), max(values)))
    return least if least == greatest else f"{least} to {greatest}"


def _short(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"
