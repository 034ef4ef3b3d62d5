"""The settings of a site's storage, of a node without storage, and of the whole suite."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, ValidationInfo, field_validator

from ignite_server.settings import IgniteSettings
from mistbow.auth.credential import Kind
from mistbow.auth.identity import Proof, identity_file
from mistbow.setting_values import CheckedSettings
from mistbow.settings import Host
from mistbow.trust_settings import TlsSettings, check_identity

_SERVICES = ("worker", "agent", "monitor")
_MAIN_SERVICES: Mapping[frozenset[str], Kind] = {
    frozenset({"worker", "monitor"}): "worker",
    frozenset({"enabler", "monitor"}): "enabler",
}
"""The services of a node without storage -> the main service: a worker or an enabler."""

_EXAMPLE = Path("examples/host.insights")
_ROOT = Path(__file__).resolve().parents[1]


class StorageSettings(IgniteSettings, TlsSettings):
    """A node with a site's storage: Ignite, the storage agent, and further services.

    The services have further settings of their own.
    """

    service_kind = "agent"

    host: Host = Field(default="127.0.0.1", description="Address that the services listen on.")
    services: str = Field(
        default="agent",
        description="The services of this node: agent, or agent with worker and monitor.",
    )
    agent_port: int = Field(default=8300, ge=1, le=65535, description="Port of the storage agent.")
    worker_port: int = Field(
        default=8100, ge=1, le=65535, description="Port of the analytics worker."
    )
    monitor_port: int = Field(
        default=8200, ge=1, le=65535, description="Port of the monitoring agent."
    )
    worker_identity_file: Path | None = Field(
        default=None,
        validate_default=True,
        description="File with the identity of the worker of this node.",
    )

    @field_validator("worker_identity_file")
    @classmethod
    def _check_worker_identity(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        if file is not None:
            check_identity(file, "worker")
        elif (
            "worker" in info.data.get("services", "") and info.data.get("identity_file") is not None
        ):
            raise ValueError(
                "the worker of this node needs an identity of its own, in "
                "MISTBOW_WORKER_IDENTITY_FILE: mistbow identity issue NAME --kind worker"
            )
        return file

    @field_validator("services")
    @classmethod
    def _check_services(cls, text: str) -> str:
        named = [name.strip() for name in text.split(",")]
        if "agent" not in named or len(named) != len(set(named)) or not {*named} <= {*_SERVICES}:
            raise ValueError("it must be agent, or agent with worker and monitor: agent,monitor")
        return ",".join(named)

    @property
    def service_names(self) -> tuple[str, ...]:
        """The names of the services of this node, in the order of their start."""
        return tuple(name for name in _SERVICES if name in self.services.split(","))

    @property
    def ports(self) -> dict[str, int]:
        """The ports of Ignite and of the services of this node: name of the setting -> port."""
        names = [name for name in type(self).model_fields if name.startswith("ignite_")]
        names += [f"{service}_port" for service in self.service_names]
        return {name: getattr(self, name) for name in names if name.endswith("_port")}


class _NodeServices(CheckedSettings):
    """The services of a node without storage; this setting is checked before the identities."""

    services: str = Field(
        default="worker,monitor",
        description="The services of this node: worker,monitor or enabler,monitor.",
    )

    @field_validator("services")
    @classmethod
    def _check_services(cls, text: str) -> str:
        names = tuple(name.strip() for name in text.split(","))
        kind = _MAIN_SERVICES.get(frozenset(names)) if len(names) == 2 else None
        if kind is None:
            raise ValueError("it must be worker,monitor or enabler,monitor")
        return f"{kind},monitor"


class NodeSettings(TlsSettings, _NodeServices):
    """A node without storage: a worker or an enabler, and a monitoring agent.

    The services have further settings of their own.
    """

    home: Path = Field(default=Path(".mistbow"), description="Folder of data and logs.")
    host: Host = Field(default="127.0.0.1", description="Address that the services listen on.")
    worker_port: int = Field(
        default=8100, ge=1, le=65535, description="Port of the analytics worker."
    )
    enabler_port: int = Field(default=8000, ge=1, le=65535, description="Port of the enabler.")
    monitor_port: int = Field(
        default=8200, ge=1, le=65535, description="Port of the monitoring agent."
    )
    monitor_identity_file: Path | None = Field(
        default=None,
        validate_default=True,
        description="File with the identity of the monitoring agent of this node.",
    )

    @field_validator("identity_file")
    @classmethod
    def _check_kind(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        kind, _, _ = info.data.get("services", "").partition(",")
        if file is not None and kind:
            check_identity(file, kind)
        return file

    @field_validator("monitor_identity_file")
    @classmethod
    def _check_monitor_identity(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        if file is not None:
            check_identity(file, "monitor")
        elif info.data.get("identity_file") is not None:
            raise ValueError(
                "the monitoring agent of this node needs an identity of its own, in "
                "MISTBOW_MONITOR_IDENTITY_FILE: mistbow identity issue NAME --kind monitor"
            )
        return file

    @property
    def service_names(self) -> tuple[str, ...]:
        """The names of the services of this node, in the order of their start."""
        return tuple(self.services.split(","))

    @property
    def ports(self) -> dict[str, int]:
        """The ports of the services of this node: service -> port."""
        return {name: getattr(self, f"{name}_port") for name in self.service_names}

    def identity_file_of(self, service: str) -> Path | None:
        """Return the file with the identity of a service of this node; None: it has none."""
        return self.monitor_identity_file if service == "monitor" else self.identity_file

    def proof_of(self, service: str) -> Proof:
        """Return the proof of a service of this node; None: the fog has no token."""
        file = self.identity_file_of(service)
        return self.secret if file is None else identity_file(file, self.shared_token or "")


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
        default=_EXAMPLE,
        description="Insights to deploy and to show. The default is a file of Mistbow's sources.",
    )

    @field_validator("insights")
    @classmethod
    def _check_insights(cls, file: Path) -> Path:
        if file == _EXAMPLE and not file.is_file():
            file = _ROOT / file
        if not file.is_file():
            raise ValueError("it must be a file with insights")
        return file
