"""Making workers run what is deployed, and knowing how far it is."""

from analytics_enabler.execution.loop import Execution
from analytics_enabler.execution.progress import Progress

__all__ = ["Execution", "Progress"]
