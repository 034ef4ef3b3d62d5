"""The insights that the benchmarks run, and the points that the insights read."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from analytics.plan.fragments import StreamLocation, Whole
from analytics.plan.functions import Function
from analytics.plan.nodes import Plan
from analytics_enabler.optimizer.pipeline import optimize
from analytics_enabler.semantics.check import check
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.streams.schemas import RAW
from tests.support.threads import in_threads

SITE = "bench"
ENTITIES = 10
_PAUSE_S = 0.1


@dataclass(frozen=True)
class InsightShape:
    """A function over a window, and the period at which it is computed."""

    function: Function
    size_s: int
    every_s: int


SHAPES = (
    InsightShape("AVG", 5, 1),
    InsightShape("MAX", 10, 1),
    InsightShape("SUM", 20, 2),
    InsightShape("COUNT", 30, 5),
    InsightShape("MIN", 60, 10),
)


def metrics(insights: int) -> list[str]:
    """Return the metrics that the first ``insights`` insights read."""
    return [f"metric.{number}" for number in range(-(-insights // len(SHAPES)))]


def queries(insights: int) -> str:
    """Return the text of the first ``insights`` insights: each shape for each metric, by entity."""
    texts = [
        f"i{number} = COMPUTE {shape.function}({metric}, {shape.size_s} SECONDS) BY entityID "
        f"EVERY {shape.every_s} SECONDS"
        for number, (metric, shape) in enumerate(
            (metric, shape) for metric in metrics(insights) for shape in SHAPES
        )
    ]
    return ";\n".join(texts[:insights])


def fragment(insights: int, since: int) -> Whole:
    """Return the fragment that the enabler would send to a worker for a number of insights.

    ``since``: the time (ms) after which results begin.
    """
    checked = check(queries(insights))
    deployed = tuple(one.deployed("bench", since) for one in checked.definitions)
    name = f"insights-{insights}"
    return Whole(
        id=name,
        source=StreamLocation(SITE, RAW),
        target=StreamLocation(SITE, f"results/{name}"),
        plan=optimize(Plan(insights=deployed)).plan,
    )


@contextmanager
def send_points(agent: AgentClient, insights: int, rate: int) -> Iterator[None]:
    """Send live points of all series that insights read, inside the ``with`` block.

    ``rate``: the points per second of all series together.
    """
    series = [(metric, f"e{n}") for metric in metrics(insights) for n in range(ENTITIES)]

    def send(stopped: threading.Event) -> None:
        sent, due = 0, time.monotonic()
        while not stopped.is_set():
            count, ts = round(rate * _PAUSE_S), system_clock()
            points = []
            for number in range(sent, sent + count):
                metric, entity = series[number % len(series)]
                points.append(Point(metric=metric, entity=entity, ts=ts, value=number % 97 / 7))
            agent.put(points)
            sent += count
            due += _PAUSE_S
            time.sleep(max(0.0, due - time.monotonic()))

    with in_threads(send):
        yield
