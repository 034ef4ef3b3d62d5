"""How many points a storage agent acknowledges, durable in Ignite."""

import statistics
import subprocess
import sys

from benchmarks.report import Figure, Report
from tests.support.suite import Suite

_CLIENTS = 4
_SECONDS = 6.0
_RUNS = 5


def run(suite: Suite) -> Report:
    """Measure bodies of 100 points and of one, against the same clients asking for /healthz."""
    url = suite.url("agent")
    hundred = [_load(url, 100) for _ in range(_RUNS)]
    single = [_load(url, 1) for _ in range(_RUNS)]
    floor = [_load(url, 0) for _ in range(_RUNS)]
    ratios = [one[0] / base[0] for one, base in zip(single, floor, strict=True)]
    return Report(
        "Ingest",
        f"{_CLIENTS} client processes, {_SECONDS:.0f} s a run, {_RUNS} runs, durability fsync; "
        "the whole suite runs on the same machine, its insights too.",
        [
            Figure("points acknowledged, 100 a body", "1/s", [rate * 100 for rate, _ in hundred]),
            Figure("the same, p50 of a request", "ms", [p50 for _, p50 in hundred]),
            Figure("requests acknowledged, 1 point a body", "1/s", [rate for rate, _ in single]),
            Figure("the same, p50 of a request", "ms", [p50 for _, p50 in single]),
            Figure("requests of /healthz, for comparison", "1/s", [rate for rate, _ in floor]),
            Figure("1 point a body : /healthz", "ratio", ratios),
        ],
    )


def _load(url: str, points: int) -> tuple[float, float]:
    """Return requests/s of all clients together, and the median of their p50 in ms."""
    argv = [sys.executable, "-m", "benchmarks.load", url, str(points), str(_SECONDS)]
    clients = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(_CLIENTS)]
    answers = [client.communicate(timeout=_SECONDS + 60)[0].split() for client in clients]
    return sum(float(a[0]) for a in answers), statistics.median(float(a[1]) for a in answers)
