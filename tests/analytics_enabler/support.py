"""What several tests of the enabler need."""

from analytics_enabler.deployments.model import Deployment
from analytics_enabler.semantics import Definition, check
from mistbow.plan.nodes import Plan


def definitions(text: str) -> tuple[Definition, ...]:
    """Return what a text without errors defines."""
    checked = check(text)
    assert checked.ok, checked.problems
    return checked.definitions


def definition(text: str) -> Definition:
    """Return what a text of one insight defines."""
    (only,) = definitions(text)
    return only


def plan_of(text: str) -> Plan:
    """Return the plan of a text as the optimizer receives it."""
    return Plan(insights=tuple(d.deployed(d.name, 0) for d in definitions(text)))


def deployment(text: str, since: int = 0, deployment_id: str = "d-1") -> Deployment:
    """Return a deployment of a text."""
    empty = Deployment(
        id=deployment_id, name=None, queries=text, warnings=(), created_at=0, updated_at=0
    )
    return empty.defined_by(definitions(text), since)
