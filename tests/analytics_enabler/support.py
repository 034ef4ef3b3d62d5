"""Builders of definitions, plans and deployments for tests of the enabler."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from analytics.client.enabler import EnablerClient
from analytics.plan.nodes import Plan
from analytics_enabler.deployments.model import Deployment
from analytics_enabler.semantics import Definition, check


def definitions(text: str) -> tuple[Definition, ...]:
    """Return the definitions of a valid text."""
    checked = check(text)
    assert checked.ok, checked.problems
    return checked.definitions


def definition(text: str) -> Definition:
    """Return the definition of a valid text of one insight."""
    (only,) = definitions(text)
    return only


def plan_of(text: str) -> Plan:
    """Return the plan of a text before optimization."""
    return Plan(insights=tuple(d.deployed(d.name, 0) for d in definitions(text)))


def deployment(text: str, since: int = 0, deployment_id: str = "d-1") -> Deployment:
    """Return a deployment of a text, deployed at ``since`` (ms)."""
    empty = Deployment(
        id=deployment_id, name=None, queries=text, warnings=(), created_at=0, updated_at=0
    )
    return empty.defined_by(definitions(text), since)


class AgentWithPoints:
    """The storage agent of a site whose newest points are a table."""

    def __init__(self, points: pa.Table) -> None:
        self._points = points

    def at(self, _site: str) -> "AgentWithPoints":
        return self

    async def info(self, _stream: str) -> Any:
        return SimpleNamespace(head=self._points.num_rows)

    async def read(self, *_: Any, **_options: Any) -> Any:
        return SimpleNamespace(table=self._points)


class MemoryJournal:
    """A journal in memory; no other enabler writes it."""

    def __init__(self, *stored: tuple[str, Any]) -> None:
        self._unread = list(stored)

    async def unread(self) -> list[tuple[str, Any]]:
        """Return the stored events once."""
        unread, self._unread = self._unread, []
        return unread

    async def append(self, key: str, event: Any, at: int) -> None:
        """Accept an event."""

    async def append_all(self, events: Mapping[str, Any], at: int) -> None:
        """Accept events."""


def is_drained(enabler: EnablerClient, node: str) -> bool:
    """Return whether a node is drained; False while the enabler sees no worker of the node."""
    return any(each.drained for each in enabler.fog().nodes if each.name == node)
