"""Deployments with one insight over the points of the hub, which any of two workers can run."""

from dataclasses import dataclass

from analytics.insight_models import Decision
from analytics_enabler.scheduling.driver.driver import REFRESH_MS
from mistbow.clock import system_clock
from tests.adaptation.fog import HUB, AdaptiveFog
from tests.oracle.stored_points import compact_key, expected_values, stored_points
from tests.support.conditions import eventually
from tests.support.traffic import Traffic

METRIC = "flow"
TEXT = f"mean = COMPUTE AVG({METRIC}, 4 SECONDS) BY entityID EVERY 2 SECONDS"
EVERY_MS = 2000
TRAFFIC = Traffic(metrics=(METRIC,), entities=("a", "b"), rate=20)
FOLLOW_MS = 2 * REFRESH_MS
"""The time (ms) in which a placement follows a change of the fog: two periods of the schedulers."""

_TOLERANCE = 1e-6


@dataclass
class Deployment:
    """A running deployment; ``node``: the worker that runs its fragment."""

    fog: AdaptiveFog
    id: str
    node: str
    text: str = TEXT
    metric: str = METRIC

    @property
    def group(self) -> str:
        """The id of the group of the insight."""
        return self.fog.enabler.show(self.id).insights[0].group or ""

    @property
    def moves(self) -> list[Decision]:
        """The moves of the fragment, the oldest first."""
        return [
            each
            for each in self.fog.enabler.decisions()
            if each.kind == "fragment_moved" and each.subject == self.group
        ]

    def await_move(self, changed_at: int) -> str:
        """Wait until another worker runs the insight; return why it has moved.

        Asserts that it was decided within ``FOLLOW_MS`` of the change at ``changed_at`` (ms).
        """
        self.node = self.fog.await_node(self.id, former=self.node)
        move = self.moves[-1]
        print(f"moved {move.at - changed_at} ms after the change: {move.why}")
        assert 0 <= move.at - changed_at <= FOLLOW_MS
        return move.why

    def check_results(self, least: int = 6) -> None:
        """Wait until there are enough results, and all up to now equal the oracle's."""
        since = self.fog.enabler.show(self.id).insights[0].since
        # After a move within seconds, enough ticks are still to come.
        until = max(system_clock(), since + (least + 1) * EVERY_MS) // EVERY_MS * EVERY_MS

        def equal() -> bool:
            points = stored_points(self.fog.sites[HUB], self.metric)
            right = expected_values(self.text, points, since, until)
            stored = self.fog.enabler.results(self.id, limit=100_000, end=until).results
            found = {(r.insight, compact_key(r.key), r.ts): r.value for r in stored}
            assert found.keys() == right.keys()
            assert all(abs((found[key] or 0.0) - right[key]) <= _TOLERANCE for key in right)
            return len(right) >= least

        eventually(equal, timeout=150, pause=1.0, what="the results equal the oracle's")


class Deploy:
    """Deploys insights over the points of the hub, and waits until they run."""

    def __init__(self, fog: AdaptiveFog) -> None:
        self._fog = fog
        self.ids: list[str] = []

    def __call__(self, scheduler: str, text: str = TEXT, metric: str = METRIC) -> Deployment:
        chosen = text.replace(" EVERY", f" WHEN site == '{HUB}' EVERY")
        id = self._fog.enabler.submit(f"{chosen} WITH SCHEDULER={scheduler}").deployment_id
        self.ids.append(id)
        return Deployment(self._fog, id, self._fog.await_node(id), text, metric)
