"""Benchmark of the delay of high-salience insights at three times the sustained rate."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from analytics.insight_models import InsightStatus
from benchmarks.report import Figure, Report
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from tests.support.conditions import eventually
from tests.support.suite import Suite

_URGENT = """
alarm = COMPUTE MAX(heat, 10 SECONDS) BY entityID EVERY 1 SECOND WITH SALIENCE 5
"""
_PATIENT = """
middle = COMPUTE MEDIAN(load, 20 SECONDS) BY entityID EVERY 1 SECOND;
odd = COMPUTE OUTLIER_DETECTION(load, 20 SECONDS) BY entityID EVERY 1 SECOND
    WITH ALGORITHM pmcod AND K=50 AND R=0.5
"""
_ENTITIES = 50
_CALM_RATE = 100
_FIRST_RATE = 500
_MAX_RATE = 64_000
_STEP = 1.5
_STEP_S = 30
_TOO_LATE_MS = 2000
_TIMES = 3
_MEASURED_S = 120
_ALONE_S = 60
_LATENESS_MS = 1000
_PAUSE_S = 0.1
_OVERLOADED = {"lagging", "shed"}


class _Feed:
    """Sends points of two metrics: ``heat`` at a low rate, ``load`` at ``rate`` (points/s)."""

    def __init__(self, suite: Suite) -> None:
        self.rate = 0.0
        self.sent = 0
        self._agent = suite.agent
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send points inside the ``with`` block."""
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopped.is_set():
            ts = system_clock()
            points = [
                _point(metric, self.sent + number, ts)
                for metric, rate in (("heat", _CALM_RATE), ("load", self.rate))
                for number in range(round(rate * _PAUSE_S))
            ]
            self._agent.put(points)
            self.sent += len(points)
            due += _PAUSE_S
            time.sleep(max(0.0, due - time.monotonic()))


class _FirstResultDelays:
    """Measures the delays of a deployment's results (first revisions) as the results are read."""

    def __init__(self, suite: Suite, deployment_id: str) -> None:
        self._found: list[tuple[float, int]] = []
        self._follow = suite.enabler.follow(deployment_id)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        for result in self._follow:
            if result.revision == 0:
                delay = system_clock() - result.ts - _LATENESS_MS
                self._found.append((time.monotonic(), delay))

    def p95(self, since: float) -> float:
        """Return the 95th percentile (ms) of the delays measured since ``since`` (s, monotonic
        clock).
        """
        delays = sorted(delay for at, delay in self._found if at >= since)
        return float(delays[int(len(delays) * 0.95)])

    def count(self, since: float) -> int:
        """Return the number of results that were read since ``since`` (s, monotonic clock)."""
        return sum(at >= since for at, _ in self._found)


def run(suite: Suite) -> Report:
    """Find the highest sustained rate of points, then measure delays at three times this rate."""
    urgent = suite.enabler.submit(_URGENT, name="urgent").deployment_id
    feed = _Feed(suite)
    with feed.running():
        _wait_until_running(suite, urgent)
        delays = _FirstResultDelays(suite, urgent)
        alone = _p95_of(delays, _ALONE_S)
        patient = suite.enabler.submit(_PATIENT, name="patient").deployment_id
        feed.rate = _FIRST_RATE
        _wait_until_running(suite, patient)
        sustained, beside = _sustained(suite, feed, delays)
        feed.rate = _FIRST_RATE
        _wait_until_running(suite, patient)
        feed.rate = _TIMES * sustained
        began, sent = time.monotonic(), feed.sent
        eventually(
            lambda: _status(suite, patient).state in _OVERLOADED,
            timeout=120,
            what="insights of salience 0 are reported as lagging or shed",
        )
        first_state = _status(suite, patient).state
        noticed_s = time.monotonic() - began
        loaded = _p95_of(delays, _MEASURED_S)
        rate = (feed.sent - sent) / (time.monotonic() - began)
        since_onset = delays.p95(began)
        last_state = _status(suite, patient).state
    missing = _ENTITIES * _MEASURED_S - delays.count(time.monotonic() - _MEASURED_S)
    return Report(
        "Salience",
        f"One insight of SALIENCE 5 over {_CALM_RATE} points/s, first alone for {_ALONE_S} s, then "
        f"beside two of SALIENCE 0 over more, on one worker. Their rate grows {_STEP} times each "
        f"{_STEP_S} s until results of SALIENCE 0 are {_TOO_LATE_MS} ms overdue; the one before is "
        f"sustained. {_TIMES} times that is sent for {_MEASURED_S} s after those of SALIENCE 0 "
        f"were reported as overloaded (`{first_state}`, finally `{last_state}`).",
        [
            Figure("sustained rate", "points/s", [sustained + _CALM_RATE]),
            Figure("rate under load", "points/s", [rate]),
            Figure("SALIENCE 5, delay alone, p95", "ms", [alone]),
            Figure("SALIENCE 5, delay at the sustained rate, p95", "ms", [beside]),
            Figure("SALIENCE 5, delay under load, p95", "ms", [loaded]),
            Figure("delay under load : alone", "times", [loaded / alone], at_most=1.5),
            Figure("SALIENCE 5, p95 since the load began", "ms", [since_onset]),
            Figure("SALIENCE 5, results not read in time", "rows", [max(0, missing)]),
            Figure("until SALIENCE 0 was reported as overloaded", "s", [noticed_s]),
        ],
    )


def _wait_until_running(suite: Suite, deployment_id: str) -> None:
    eventually(
        lambda: _status(suite, deployment_id).state == "running",
        timeout=300,
        what="the insights run",
    )


def _p95_of(delays: _FirstResultDelays, seconds: int) -> float:
    began = time.monotonic()
    time.sleep(seconds)
    return delays.p95(began)


def _sustained(suite: Suite, feed: _Feed, delays: _FirstResultDelays) -> tuple[float, float]:
    """Raise the rate until results are overdue.

    Return (the last rate (points/s) without overdue results, the 95th percentile (ms) of ``delays``
    at this rate).
    """
    sustained = beside = 0.0
    while feed.rate <= _MAX_RATE:
        p95 = _p95_of(delays, _STEP_S)
        if any(each.lag_ms > _TOO_LATE_MS or each.shed_since for each in suite.worker.list()):
            break
        sustained, beside = feed.rate, p95
        feed.rate *= _STEP
    assert sustained, f"not even {_FIRST_RATE} points/s are sustained: is the machine busy?"
    return sustained, beside


def _status(suite: Suite, deployment_id: str) -> InsightStatus:
    return suite.enabler.show(deployment_id).insights[0]


def _point(metric: str, number: int, ts: int) -> Point:
    return Point(metric=metric, entity=f"e{number % _ENTITIES}", ts=ts, value=float(number % 97))
