"""The optimizer: rules that make a plan of all running insights cheaper, never different."""

from analytics_enabler.optimizer.pipeline import Optimized, Step, optimize

__all__ = ["Optimized", "Step", "optimize"]
