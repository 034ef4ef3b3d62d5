"""The execution of deployments: a reconciler makes the workers run the fragments."""

from analytics_enabler.execution.reconciler import Reconciler
from analytics_enabler.execution.status import ExecutionStatus

__all__ = ["ExecutionStatus", "Reconciler"]
