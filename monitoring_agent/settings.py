"""The settings of the monitoring agent."""

import socket
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from mistbow.settings import NodeName, ServiceSettings, ServiceUrl
from monitoring_agent.sampling_requests import parse_confidences


def _check_confidences(text: str) -> str:
    parse_confidences(text)
    return text


MonitorScope = Literal["auto", "machine", "container"]

Confidences = Annotated[str, AfterValidator(_check_confidences)]


class MonitorSettings(ServiceSettings):
    """Measure this host, and send the points to a storage agent."""

    own_name_settings = ("node",)

    monitor_port: int = Field(
        default=8200, ge=0, le=65535, description="Port of the monitoring agent."
    )
    agent_url: ServiceUrl = Field(
        default="http://127.0.0.1:8300", description="Storage agent that stores the points."
    )
    node: NodeName = Field(default_factory=socket.gethostname, description="This node's name.")
    interval_ms: int = Field(
        default=1000, ge=100, le=86_400_000, description="Time between two collections, ms."
    )
    monitor_scope: MonitorScope = Field(
        default="auto",
        description="What cpu.util and memory.* measure: the machine, or the container in relation "
        "to its limits. auto: the container if the agent runs in one.",
    )
    buffer_points: int = Field(
        default=100_000,
        ge=1,
        le=1_000_000_000,
        description="Maximum number of points that wait for the storage agent; beyond it, the "
        "oldest are dropped.",
    )
    sources: str = Field(
        default="",
        description="Further JSON sources, separated by ';': a file, http://… or exec:COMMAND.",
    )
    adaptive: Confidences = Field(
        default="",
        description="Metrics that are always sampled adaptively: METRIC=CONFIDENCE,… "
        "with * for any part of a name.",
    )
    adaptive_longest_ms: int = Field(
        default=10_000,
        ge=100,
        le=86_400_000,
        description="Maximum time between two values of these metrics, ms.",
    )
