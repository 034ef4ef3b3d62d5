"""The settings of the monitoring agent."""

import socket
from typing import Annotated

from pydantic import AfterValidator, Field

from mistbow.sampling.adaptive import confidences
from mistbow.settings import ServiceSettings


def _are_confidences(text: str) -> str:
    confidences(text)
    return text


Confidences = Annotated[str, AfterValidator(_are_confidences)]


class MonitorSettings(ServiceSettings):
    """The monitoring agent."""

    monitor_port: int = Field(
        default=8200, ge=0, le=65535, description="Port of the monitoring agent."
    )
    agent_url: str = Field(
        default="http://127.0.0.1:50000", description="Storage agent to post to."
    )
    node: str = Field(default_factory=socket.gethostname, description="This node's name.")
    interval_ms: int = Field(default=1000, ge=100, description="Time between two collections, ms.")
    buffer_points: int = Field(
        default=100_000,
        ge=1,
        description="Most points kept while the agent is away; oldest dropped.",
    )
    sources: str = Field(
        default="",
        description="Further JSON sources, separated by ';': a file, http://… or exec:COMMAND.",
    )
    adaptive: Confidences = Field(
        default="",
        description="Metrics that are sampled adaptively, whatever insights ask for: "
        "METRIC=CONFIDENCE,… with * for any part of a name.",
    )
    adaptive_longest_ms: int = Field(
        default=10_000, ge=100, description="How long one of their values stands at most, ms."
    )
