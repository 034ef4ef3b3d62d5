"""The context of checks: information that the bound tree does not contain."""

from dataclasses import dataclass

from analytics_enabler.semantics.diagnostics import Suggestions
from analytics_enabler.semantics.expand.feeds import Schemas
from analytics_enabler.semantics.sites import Sites


@dataclass(frozen=True, slots=True)
class Context:
    """The information that checks need in addition to the bound tree.

    ``metrics``: the names of the metrics that the insight may read. ``schemas``: stream -> columns,
    for the streams that feeds read. ``sites``: the sites in the fabric. ``suggestions``: finds
    similar names for hints. ``metrics`` and ``sites`` are None if unknown.
    """

    metrics: frozenset[str] | None
    schemas: Schemas
    sites: Sites | None
    suggestions: Suggestions
