"""The settings of the analytics worker."""

import socket
from datetime import time
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from analytics_worker.heap import MIN_HEAP_MB, heap_mb
from mistbow.fabric import Position
from mistbow.settings import (
    Labels,
    NodeName,
    Region,
    ServiceSettings,
    ServiceUrl,
    own_address,
)

_HeapSize = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,6}[kmgtKMGT]$")]
_Amount = Annotated[float, Field(ge=0, le=1e12)]


class WorkerSettings(ServiceSettings):
    """The settings of an analytics worker."""

    service_kind = "worker"
    own_name_settings = ("node",)
    own_url_settings = ("worker_url",)

    worker_port: int = Field(
        default=8100, ge=0, le=65535, description="Port of the analytics worker."
    )
    agent_url: ServiceUrl = Field(
        default="http://127.0.0.1:8300", description="Storage agent of this site."
    )
    worker_url: ServiceUrl = Field(
        default_factory=own_address("worker_port", 8100),
        description="Address of this worker for other services.",
    )
    node: NodeName = Field(default_factory=socket.gethostname, description="This node's name.")
    region: Region = Field(default="", description="Region of this node.")
    labels: Labels = Field(default="", description="Labels of this node: key=value,key=value.")
    node_cores_free: _Amount | None = Field(
        default=None,
        description="Cores of this node that are free for fragments; if unset, they are measured.",
    )
    node_idle_w: _Amount = Field(default=0.0, description="Power of this node without load (W).")
    node_full_w: _Amount | None = Field(
        default=None, description="Power of this node with full load (W)."
    )
    node_battery_wh: Annotated[float, Field(gt=0, le=1e12)] | None = Field(
        default=None, description="Capacity of this node's battery (Wh)."
    )
    node_charge_wh: _Amount | None = Field(
        default=None,
        description="Charge of this node's battery (Wh); if unset, it is measured.",
    )
    node_charging_w: _Amount = Field(
        default=0.0, description="Power at which this node's battery is charged (W)."
    )
    node_charge_at: time | None = Field(
        default=None, description="Time of day (HH:MM, UTC) at which charging begins."
    )
    node_price_per_core_hour: _Amount | None = Field(
        default=None, description="Price of a core of this node for an hour."
    )
    node_price_per_gb: _Amount | None = Field(
        default=None, description="Price of a GB that leaves the site from this node."
    )
    node_position: str = Field(
        default="", description="Position of this node in degrees: LATITUDE,LONGITUDE."
    )
    drain_s: float = Field(
        default=0.0,
        ge=0,
        le=3600,
        description="Time (s) for which a worker at SIGTERM waits until other workers have taken "
        "over its fragments.",
    )
    spark_master: str = Field(default="local[*]", description="Spark master.")
    driver_memory: _HeapSize | None = Field(
        default=None,
        description="Heap of Spark's driver, at least 480m, with its unit, such as 768m or 2g; "
        "without it, half of the memory, from 512m to 768m.",
    )

    @property
    def position(self) -> Position | None:
        """The position of the node; None: unknown."""
        return parse_position(self.node_position) if self.node_position else None

    @field_validator("driver_memory")
    @classmethod
    def _check_heap(cls, size: str | None) -> str | None:
        if size is not None and heap_mb(size) < MIN_HEAP_MB:
            raise ValueError(f"Spark needs at least {MIN_HEAP_MB}m (got {size})")
        return size

    @field_validator("node_position")
    @classmethod
    def _check_position(cls, text: str) -> str:
        if text:
            parse_position(text)
        return text

    @model_validator(mode="after")
    def _check_node_facts(self) -> Self:
        if self.node_full_w is not None and self.node_full_w < self.node_idle_w:
            raise ValueError("MISTBOW_NODE_FULL_W must be at least MISTBOW_NODE_IDLE_W")
        charge, capacity = self.node_charge_wh, self.node_battery_wh
        if charge is not None and (capacity is None or charge > capacity):
            raise ValueError("MISTBOW_NODE_CHARGE_WH must be at most MISTBOW_NODE_BATTERY_WH")
        return self


def parse_position(text: str) -> Position:
    """Return the position in a text ``LATITUDE,LONGITUDE``; raises ``ValueError`` if malformed.

    >>> parse_position("35.17, 33.36")
    Position(latitude=35.17, longitude=33.36)
    """
    try:
        latitude, longitude = map(float, text.split(","))
    except ValueError:
        raise ValueError(f"{text!r} is not of the form LATITUDE,LONGITUDE") from None
    return Position(latitude=latitude, longitude=longitude)
