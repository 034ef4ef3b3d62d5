"""Explaining, without deploying anything, what a text becomes."""

from analytics_enabler.explain.explanation import explain
from analytics_enabler.explain.text import explanation_text

__all__ = ["explain", "explanation_text"]
