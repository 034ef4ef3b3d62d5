"""The explanation of query texts without deployment."""

from analytics_enabler.explain.explainer import Explainer
from analytics_enabler.explain.text import explanation_text

__all__ = ["Explainer", "explanation_text"]
