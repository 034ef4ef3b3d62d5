"""The first results of the insights that ``make up`` deploys."""

from collections.abc import Callable
from pathlib import Path

from analytics.client.enabler import EnablerClient
from mistbow.errors import UnavailableError
from suite.example_insights import deploy
from suite.results_table import result_line


class FirstResults:
    """Deploys insights once, and reports the first result of each insight over all sites.

    Changes that a user makes to the deployment in the meantime are kept. ``problem``: what prevents
    the results at present.
    """

    def __init__(
        self, client: EnablerClient, insights: Path, report: Callable[[str], None]
    ) -> None:
        self.problem = "the enabler does not answer"
        self._client = client
        self._insights = insights
        self._report = report
        self._seen: set[str] = set()
        self._deployment_id: str | None = None

    def poll(self, workers: int, *, is_ready: bool) -> str | None:
        """Return the id of the deployment once each insight has a result over all sites.

        The insights are deployed when all ``workers`` are announced, or ``is_ready``.
        With fewer workers, each further worker would change the placement.
        """
        try:
            if self._deployment_id is None:
                if not is_ready and len(self._client.fog().nodes) < workers:
                    self.problem = "not all workers have announced themselves"
                    return None
                self._deployment_id = deploy(self._client, self._insights)
                self._report("the insights are deployed")
            return self._first_results(self._deployment_id)
        except UnavailableError as error:
            self.problem = error.message
            return None

    def _first_results(self, deployment_id: str) -> str | None:
        status = self._client.show(deployment_id)
        self.problem = status.error or status.status
        for result in self._client.results(deployment_id).results:
            if result.insight not in self._seen and not result.missing:
                self._seen.add(result.insight)
                self._report(result_line(result))
        names = {insight.name for insight in status.insights}
        return deployment_id if self._seen >= names else None
