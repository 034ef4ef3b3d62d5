"""Whether insights of a high salience keep their pace under three times what can be sustained."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.report import Figure, Report
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.insights import InsightStatus
from tests.support.suite import Suite
from tests.support.waiting import eventually

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
_MOST_RATE = 64_000
_STEP = 1.5
_STEP_S = 30
_TOO_LATE_MS = 2000
_TIMES = 3
_MEASURED_S = 120
_ALONE_S = 60
_LATENESS_MS = 1000
_PAUSE_S = 0.1
_SAYS_SO = {"lagging", "shed"}


class _Feed:
    """Sends points of two metrics: ``heat`` at a calm rate, and ``load`` at ``rate`` (points/s)."""

    def __init__(self, suite: Suite) -> None:
        self.rate = 0.0
        self.sent = 0
        self._agent = suite.agent
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send while the ``with`` lasts."""
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


class _Delays:
    """How late each first result of a deployment is, as it is read."""

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
        """Return the 95th percentile (ms) of those read since a time of the monotonic clock."""
        delays = sorted(delay for at, delay in self._found if at >= since)
        return float(delays[int(len(delays) * 0.95)])

    def count(self, since: float) -> int:
        """Return how many were read since then."""
        return sum(at >= since for at, _ in self._found)


def run(suite: Suite) -> Report:
    """Measure the rate that can be sustained, then send three times as much."""
    urgent = suite.enabler.submit(_URGENT, name="urgent").deployment_id
    feed = _Feed(suite)
    with feed.running():
        _wait_until_it_runs(suite, urgent)
        delays = _Delays(suite, urgent)
        alone = _measured(delays, _ALONE_S)
        patient = suite.enabler.submit(_PATIENT, name="patient").deployment_id
        feed.rate = _FIRST_RATE
        _wait_until_it_runs(suite, patient)
        sustained, beside = _sustained(suite, feed, delays)
        feed.rate = _FIRST_RATE
        _wait_until_it_runs(suite, patient)
        feed.rate = _TIMES * sustained
        began, sent = time.monotonic(), feed.sent
        eventually(
            lambda: _status(suite, patient).state in _SAYS_SO,
            timeout=120,
            what="those of salience 0 say that they are late",
        )
        told = _status(suite, patient).state
        noticed = time.monotonic() - began
        loaded = _measured(delays, _MEASURED_S)
        rate = (feed.sent - sent) / (time.monotonic() - began)
        since_onset = delays.p95(began)
        told_at_last = _status(suite, patient).state
    missing = _ENTITIES * _MEASURED_S - delays.count(time.monotonic() - _MEASURED_S)
    return Report(
        "Salience",
        f"One insight of SALIENCE 5 over {_CALM_RATE} points/s, first alone for {_ALONE_S} s, then "
        f"beside two of SALIENCE 0 over more, on one worker. Their rate grows {_STEP} times each "
        f"{_STEP_S} s until results of SALIENCE 0 are {_TOO_LATE_MS} ms overdue; the one before is "
        f"sustained. {_TIMES} times that is sent for {_MEASURED_S} s after those of SALIENCE 0 "
        f"said that they are late (`{told}`, in the end `{told_at_last}`).",
        [
            Figure("rate that is sustained", "points/s", [sustained + _CALM_RATE]),
            Figure("rate under load", "points/s", [rate]),
            Figure("SALIENCE 5, delay alone, p95", "ms", [alone]),
            Figure("SALIENCE 5, delay at what is sustained, p95", "ms", [beside]),
            Figure("SALIENCE 5, delay under load, p95", "ms", [loaded]),
            Figure("the same by that alone", "times", [loaded / alone], at_most=1.5),
            Figure("SALIENCE 5, p95 since the load began", "ms", [since_onset]),
            Figure("SALIENCE 5, results not read in time", "rows", [max(0, missing)]),
            Figure("until SALIENCE 0 said that it is late", "s", [noticed]),
        ],
    )


def _wait_until_it_runs(suite: Suite, deployment_id: str) -> None:
    eventually(
        lambda: _status(suite, deployment_id).state == "running", timeout=300, what="it runs"
    )


def _measured(delays: _Delays, seconds: int) -> float:
    began = time.monotonic()
    time.sleep(seconds)
    return delays.p95(began)


def _sustained(suite: Suite, feed: _Feed, delays: _Delays) -> tuple[float, float]:
    """Return the highest rate that was tried at which no result was overdue at the end, and the
    p95 (ms) of what is salient meanwhile."""
    sustained = beside = 0.0
    while feed.rate <= _MOST_RATE:
        p95 = _measured(delays, _STEP_S)
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
