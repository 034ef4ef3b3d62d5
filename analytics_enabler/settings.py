"""The settings of the analytics enabler."""

from pydantic import Field, Json

from mistbow.settings import ServiceSettings, ServiceUrl
from mistbow.timestamps import TimestampUnit


class EnablerSettings(ServiceSettings):
    """The settings of the analytics enabler."""

    enabler_port: int = Field(default=8000, ge=0, le=65535, description="Port of the enabler.")
    agent_url: ServiceUrl = Field(
        default="http://127.0.0.1:8300", description="Storage agent of this site."
    )
    scheduler: str = Field(
        default="fair", description="Scheduler of insights that do not name a scheduler."
    )
    scheduler_settings: Json[dict[str, dict[str, str]]] = Field(
        default="{}",  # type: ignore[arg-type]  # decoded like a value from the environment
        description="Settings of schedulers, as JSON: scheduler to key to value, all strings.",
    )
    timestamp_unit: TimestampUnit = Field(
        default="ms",
        description="Times of requests that look like seconds, microseconds or nanoseconds: "
        "refuse them (ms), convert them (auto), or take every number for milliseconds (unchecked).",
    )
    patience_ms: int = Field(
        default=5000,
        ge=0,
        description="Time that results wait for a silent site, milliseconds.",
    )
