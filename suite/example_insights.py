"""The insights that ``mistbow run`` deploys and shows."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import stamina

from analytics.client.enabler import EnablerClient
from analytics.insight_models import Result
from mistbow.errors import MistbowError, NotFoundError, UnavailableError

_PAUSE_S = 0.5


def deploy(enabler: EnablerClient, insights: Path) -> str:
    """Deploy the insights of a file under the file's name, and return the id of the deployment.

    An existing deployment with this name is amended if the text of the file has changed.
    """
    queries, name = insights.read_text(), insights.stem
    for deployment in enabler.list():
        if deployment.name == name:
            if deployment.queries != queries:
                enabler.amend(deployment.deployment_id, queries, name=name)
            return deployment.deployment_id
    return enabler.submit(queries, name=name).deployment_id


def follow_results(
    enabler: EnablerClient, insights: Path, stopping: threading.Event
) -> Iterator[Result]:
    """Deploy the insights of a file once, and yield their results until ``stopping`` is set.

    The iteration ends when a user deletes the deployment. While a service is unavailable, the
    requests are repeated. Raises ``MistbowError`` if the insights are refused.
    """
    deployment_id = None
    for attempt in stamina.retry_context(
        on=UnavailableError,
        attempts=None,
        timeout=None,
        wait_initial=_PAUSE_S,
        wait_max=_PAUSE_S,
        wait_jitter=0,
    ):
        with attempt:
            if stopping.is_set():
                return
            with suppress(NotFoundError):
                if deployment_id is None:
                    deployment_id = deploy(enabler, insights)
                yield from enabler.follow(deployment_id)


def silent_insights(enabler: EnablerClient, insights: Path) -> list[str]:
    """Return a text about each insight of a file that has no value, from its deployment."""
    return [
        f"{insight.name} has no value: {insight.silent}"
        for deployment in enabler.list()
        if deployment.name == insights.stem
        for insight in deployment.insights
        if insight.silent is not None
    ]


def problem(error: MistbowError) -> str:
    """Return the message, hint and details of an error as text for the terminal."""
    return "\n".join(str(part) for part in (error.message, error.hint, error.details) if part)
