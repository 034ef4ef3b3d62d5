"""The settings of a site's storage, and of the whole suite on one machine."""

from pathlib import Path

from pydantic import Field, field_validator

from ignite_server.settings import IgniteSettings
from mistbow.settings import Host
from mistbow.trust_settings import TlsSettings


class StorageSettings(IgniteSettings, TlsSettings):
    """A site's storage: Ignite and the storage agent, which has further settings of its own."""

    host: Host = Field(default="127.0.0.1", description="Address that the agent listens on.")
    agent_port: int = Field(default=8300, ge=1, le=65535, description="Port of the storage agent.")


class RunSettings(IgniteSettings, TlsSettings):
    """The whole suite on this machine, on loopback."""

    agent_port: int = Field(default=8300, ge=1, le=65535, description="Port of the storage agent.")
    worker_port: int = Field(
        default=8100, ge=1, le=65535, description="Port of the analytics worker."
    )
    enabler_port: int = Field(default=8000, ge=1, le=65535, description="Port of the enabler.")
    monitor_port: int = Field(
        default=8200, ge=1, le=65535, description="Port of the monitoring agent."
    )
    insights: Path = Field(
        default=Path("examples/host.insights"), description="Insights to deploy and to show."
    )

    @field_validator("insights")
    @classmethod
    def _check_insights(cls, file: Path) -> Path:
        if not file.is_file():
            raise ValueError("it must be a file with insights")
        return file
