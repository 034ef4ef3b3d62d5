"""The insights that a run deploys and follows."""

import threading
from collections.abc import Iterator
from pathlib import Path

from mistbow.client.enabler import EnablerClient
from mistbow.errors import MistbowError, NotFoundError, UnavailableError
from mistbow.insights import Result

_PAUSE_S = 0.5


def deploy(enabler: EnablerClient, insights: Path) -> str:
    """Deploy the insights of a file, named as it is, unless they are; return the deployment's id.

    A file that has changed since amends the deployment.
    """
    queries, name = insights.read_text(), insights.stem
    for deployment in enabler.list():
        if deployment.name == name:
            if deployment.queries != queries:
                enabler.amend(deployment.deployment_id, queries, name=name)
            return deployment.deployment_id
    return enabler.submit(queries, name=name).deployment_id


def results(enabler: EnablerClient, insights: Path, stopping: threading.Event) -> Iterator[Result]:
    """Deploy the insights of a file, once, and yield their results until ``stopping`` is set.

    Ends when they are deleted: what a user does to them meanwhile stays done. Raises
    ``MistbowError`` when they are refused; while a service is away it tries again.
    """
    deployment_id = None
    while not stopping.is_set():
        try:
            if deployment_id is None:
                deployment_id = deploy(enabler, insights)
            yield from enabler.follow(deployment_id)
            return
        except UnavailableError:
            stopping.wait(_PAUSE_S)
        except NotFoundError:
            return


def problem(error: MistbowError) -> str:
    """Return what is wrong with the insights, in words for the terminal."""
    return "\n".join(str(part) for part in (error.message, error.hint, error.details) if part)
