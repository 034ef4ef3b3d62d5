"""Explaining, without deploying anything, what a text becomes."""

from analytics_enabler.explain.outlook import Outlook
from analytics_enabler.explain.text import explanation_text

__all__ = ["Outlook", "explanation_text"]
