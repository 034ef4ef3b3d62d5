"""The semantic check: what a text means, as definitions of insights, or why it means nothing."""

from analytics_enabler.semantics.check import Checked, check
from analytics_enabler.semantics.definition import Definition

__all__ = ["Checked", "Definition", "check"]
