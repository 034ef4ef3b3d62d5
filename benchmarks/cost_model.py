"""Benchmark of the cost model: predictions of insights that never ran, against measurements."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from analytics.insight_models import ExplainedFragment, FragmentCostModel
from benchmarks.report import Figure, Report
from tests.support.conditions import eventually
from tests.support.sender import Sender
from tests.support.suite import Suite
from tests.support.traffic import Traffic

_TRAFFIC = Traffic(
    metrics=("load", "heat", "flow", "rain"),
    entities=tuple(f"bus{number}" for number in range(20)),
    rate=400,
    late_every=997,
)
_TRAINING = (
    "AVG(load, 10 SECONDS) BY entityID EVERY 1 SECOND",
    "MEDIAN(heat, 20 SECONDS) BY entityID EVERY 2 SECONDS",
    "EWMA[0.3](heat) BY entityID EVERY 2 SECONDS",
    "MAX(AVG(load, 10 SECONDS) BY entityID) BY group EVERY 4 SECONDS",
    "COUNT(rain WHEN > 50, 1 MINUTE) EVERY 10 SECONDS",
)
_PREDICTED = (
    "SUM(load, 20 SECONDS) BY entityID EVERY 2 SECONDS",
    "MEDIAN(flow, 10 SECONDS) EVERY 1 SECOND",
    "MIN(rain, 30 SECONDS) EVERY 3 SECONDS",
    "AVG(heat, 1 MINUTE) - AVG(load, 1 MINUTE) EVERY 5 SECONDS",
    "PERCENTILE[50](load, 20 SECONDS) BY group EVERY 4 SECONDS",
    "VARIANCE(flow, 30 SECONDS) BY entityID EVERY 3 SECONDS",
    "RUNNING_MAX(rain) BY entityID EVERY 5 SECONDS",
    "COUNT(load, 10 SECONDS) EVERY 1 SECOND",
    "TOP-K[3](heat, 30 SECONDS) EVERY 5 SECONDS",
    "AVG(rain WHEN > 0, 20 SECONDS) BY entityID EVERY 2 SECONDS",
    "MAX(heat, 10 SECONDS) BY entityID EVERY 1 SECOND",
    "SDEV(flow, 1 MINUTE) EVERY 10 SECONDS",
    "MEDIAN(rain, 30 SECONDS) BY entityID EVERY 3 SECONDS",
    "CORRELATION(load, heat, 30 SECONDS) EVERY 5 SECONDS",
    "FORECAST[6](flow, 1 MINUTE) EVERY 5 SECONDS",
    "EWMA[0.5](load) EVERY 2 SECONDS",
    "RATE(rain, 30 SECONDS) BY entityID EVERY 5 SECONDS",
    "heat BY entityID EVERY 4 SECONDS",
    "COUNT(AVG(flow, 20 SECONDS) BY entityID WHEN > 20) EVERY 2 SECONDS",
    "MODE(load, 20 SECONDS) BY group EVERY 10 SECONDS",
)
_BATCH = 5
"""The insights that run at a time: each starts a query, which takes all cores for seconds."""

_TRAINED_S = 120
_MEASURED_S = 50
_START_S = 600
"""The maximum time (s) until all insights of a batch run."""

_ON_TIME_S = 150
"""The maximum time (s) after the measurement of a batch until all its insights were on time."""

_POLL_S = 1.0

_RATES_S = 70
"""The time (s) after which the rate of the points is known."""

_GOAL = 0.25


@dataclass(frozen=True)
class _Pair:
    """The predicted and the measured costs of an insight."""

    insight: str
    predicted: FragmentCostModel
    measured: FragmentCostModel

    def error(self, resource: str) -> float:
        """Return the relative error of a resource, a field of the cost."""
        guess: float = getattr(self.predicted, resource)
        actual: float = getattr(self.measured, resource)
        return abs(guess - actual) / actual


def run(suite: Suite) -> Report:
    """Train the cost model on a few insights for two minutes; then predict 20 others."""
    for deployment in suite.enabler.list():
        suite.enabler.delete(deployment.deployment_id)
    with Sender(suite.url("agent"), _TRAFFIC):
        time.sleep(_RATES_S)
        training = list(_measure(suite, _TRAINING, first=100, seconds=_TRAINED_S))
        pairs: list[_Pair] = []
        for begin in range(0, len(_PREDICTED), _BATCH):
            batch = _PREDICTED[begin : begin + _BATCH]
            pairs += _measure(suite, batch, first=begin + 200, seconds=_MEASURED_S)
    return Report(
        "Cost model",
        f"{len(_TRAINING)} insights run for {_TRAINED_S} s or more, each as a fragment of its own, "
        f"over {_TRAFFIC.rate} points/s of {len(_TRAFFIC.metrics)} metrics and "
        f"{len(_TRAFFIC.entities)} entities. Then {len(_PREDICTED)} other insights are explained "
        f"before they start, and measured over a minute, {_BATCH} at a time. Error: of predicted "
        "CPU seconds per second, and of predicted written bytes per second, relative to measured. "
        "An insight counts if it was on time for a minute: a busy machine computes several ticks "
        "in one micro-batch, which takes less.",
        [
            Figure("insights that ran on time", "", [len(pairs)], at_least=len(_PREDICTED)),
            Figure("CPU, relative error", "ratio", _errors(pairs, "cores"), at_most=_GOAL),
            Figure("bytes, relative error", "ratio", _errors(pairs, "bytes_per_s"), at_most=_GOAL),
            Figure("points read, relative error", "ratio", _errors(pairs, "points_per_s")),
            Figure("CPU before training, relative error", "ratio", _errors(training, "cores")),
            Figure("measured cores of an insight", "cores", _measured(pairs, "cores")),
            Figure("measured bytes of an insight", "B/s", _measured(pairs, "bytes_per_s")),
        ],
    )


def _measure(
    suite: Suite, expressions: Sequence[str], first: int, seconds: float
) -> Iterator[_Pair]:
    """Deploy insights for a time; yield the predicted and the measured costs of each."""
    # Insights with different settings are in different fragments.
    texts = {
        f"i{number}": f"i{number} = COMPUTE {expression} WITH SCHEDULER=latency(margin=0.{number})"
        for number, expression in enumerate(expressions, first)
    }
    predicted = {name: _fragment(suite, text) for name, text in texts.items()}
    deployed = [suite.enabler.submit(text, name=name) for name, text in texts.items()]
    eventually(
        lambda: len(_running(suite)) == len(texts), timeout=_START_S, what="all fragments run"
    )
    time.sleep(seconds)
    deadline = time.monotonic() + _ON_TIME_S
    for name, text in texts.items():
        found = _await_measurement(suite, text, deadline)
        guess = predicted[name].estimated
        assert guess is not None, f"{name} was not estimated"
        if found is None:
            print(f"{text}: not on time", flush=True)
            continue
        pair = _Pair(text, guess, found)
        # A run takes long: what was measured before an interruption is not lost.
        print(_line(pair), flush=True)
        yield pair
    for each in deployed:
        suite.enabler.delete(each.deployment_id)
    eventually(lambda: not suite.worker.list(), timeout=120, what="all fragments have ended")


def _fragment(suite: Suite, text: str) -> ExplainedFragment:
    """Return the fragment of an insight as explained, as if it were deployed alone."""
    [group] = suite.enabler.explain(text).groups
    [fragment] = group.fragments
    return fragment


def _await_measurement(suite: Suite, text: str, deadline: float) -> FragmentCostModel | None:
    """Return the cost of an insight once it is on time; None: not until ``deadline`` (s)."""
    while (found := _fragment(suite, text).measured) is None and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return found


def _running(suite: Suite) -> list[str]:
    return [each.id for each in suite.worker.list() if each.state == "running"]


def _errors(pairs: Iterable[_Pair], resource: str) -> list[float]:
    return [pair.error(resource) for pair in pairs]


def _measured(pairs: Iterable[_Pair], resource: str) -> list[float]:
    return [getattr(pair.measured, resource) for pair in pairs]


def _line(pair: _Pair) -> str:
    guess, actual = pair.predicted, pair.measured
    return (
        f"{pair.insight}: {guess.cores:.3f} -> {actual.cores:.3f} cores, "
        f"{guess.bytes_per_s:.0f} -> {actual.bytes_per_s:.0f} B/s, "
        f"{guess.points_per_s:.0f} -> {actual.points_per_s:.0f} points/s"
    )
