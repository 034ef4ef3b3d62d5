"""What the tests of the console's story deploy, and the states into which they bring the suite."""

from mistbow.clock import system_clock
from tests.support.conditions import eventually
from tests.support.console_page import SECOND_WORKER
from tests.support.services import Service
from tests.support.suite import Suite

WRITTEN = "worst = COMPUTE MAXX(delay, 30 SECONDS) BY region EVERY 1 SECOND"


def span_of(suite: Suite, deployment: str, region: str) -> int:
    """Return the time (ms) between the first and the last result of a region."""
    results = suite.enabler.results(deployment, insight="worst").results
    times = [each.ts for each in results if each.key == {"region": region}]
    return max(times) - min(times) if times else 0


def kill_after_pictures(suite: Suite, group: str, worker: Service) -> None:
    """Kill the second worker when the history has pictures of its fragment."""
    placed = eventually(lambda: placement_of(suite, group), what="the fragment is placed")
    # The history has a picture of every five seconds.
    eventually(lambda: system_clock() > placed + 10_000, what="the history has the placement")
    worker.kill()


def placement_of(suite: Suite, group: str) -> int | None:
    """Return when a fragment came to the second worker; None: it has not."""
    changes = suite.enabler.placement_changes(group=group)
    return next((each.at for each in changes if each.node == SECOND_WORKER), None)


def times_of(suite: Suite, group: str) -> tuple[int, int] | None:
    """Return when a fragment came to the second worker, and when it left it; None: it has not."""
    if (placed := placement_of(suite, group)) is None:
        return None
    changes = suite.enabler.placement_changes(group=group)
    later = (each.at for each in changes if each.at > placed and each.node != SECOND_WORKER)
    return None if (left := next(later, None)) is None else (placed, left)
