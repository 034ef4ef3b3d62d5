"""The semantic check: what a text means, as definitions of insights, or why it means nothing."""

from analytics_enabler.semantics.check import Checked, check
from analytics_enabler.semantics.definition import DEFAULT_SCHEDULER, Definition
from analytics_enabler.semantics.feeds import Named, Schemas, streams_named
from analytics_enabler.semantics.sites import Sites, scope_of, sites_of

__all__ = [
    "DEFAULT_SCHEDULER",
    "Checked",
    "Definition",
    "Named",
    "Schemas",
    "Sites",
    "check",
    "scope_of",
    "sites_of",
    "streams_named",
]
