"""The optimizer: rules that reduce the cost of a plan without changing its results."""

from analytics_enabler.optimizer.pipeline import Optimized, RuleStep, optimize

__all__ = ["Optimized", "RuleStep", "optimize"]
