"""Insights, and their states at enablers and workers, for the tests of domains."""

from analytics.client.enabler import EnablerClient
from mistbow.errors import UnavailableError
from tests.analytics_enabler.domains.conftest import DomainSite
from tests.analytics_enabler.spark_worker import eventually

MEAN = "mean = COMPUTE AVG(cpu, 10 s) BY region EVERY 5 s"
PEAK = "peak = COMPUTE MAX(cpu, 10 s) BY region EVERY 5 s"
LOW = "low = COMPUTE MIN(cpu, 10 s) BY region EVERY 5 s"
AT_B = "here = COMPUTE AVG(cpu, 2 s) WHEN site == 'b' EVERY 1 s"
AT_BOTH = "both = COMPUTE AVG(cpu, 10 s) WHEN site IN ('a', 'b') EVERY 5 s"


def insights(site: DomainSite) -> set[str]:
    """Return the names of the insights whose results a site's worker computes."""
    return {uid.split("/")[1] for uid in site.worker.insights}


def ids(enabler: EnablerClient) -> set[str]:
    """Return the ids of all deployments that an enabler lists; empty while it cannot answer."""
    try:
        return {each.deployment_id for each in enabler.list()}
    except UnavailableError:
        return set()


def submitted(enabler: EnablerClient, text: str, domain: str) -> str:
    """Submit a text until it belongs to a domain; return the id of the deployment.

    An enabler reads the fabric every half second.
    """

    def belongs() -> str | None:
        deployment = enabler.submit(text).deployment_id
        if enabler.show(deployment).domain == domain:
            return deployment
        enabler.delete(deployment)
        return None

    return eventually(belongs) or ""


def domains(enabler: EnablerClient, *deployments: str) -> list[str]:
    """Return the domains of deployments; empty while an enabler of a domain does not answer."""
    try:
        return [enabler.show(each).domain for each in deployments]
    except UnavailableError:
        return []


def wait_for_deployments(enabler: EnablerClient, *expected: str) -> None:
    def listed() -> bool:
        assert ids(enabler) == set(expected)
        return True

    eventually(listed, timeout=30, what=f"{expected} are listed")
