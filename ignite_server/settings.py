"""The settings of the Ignite server of a machine."""

from pathlib import Path

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from ignite_server.ports import LOOPBACK
from mistbow.setting_values import CheckedSettings
from mistbow.settings import IGNITE_TLS_CA, Durability, Host, parse_addresses
from mistbow.tls import check_readable
from mistbow.trust_settings import AuthoritiesFile
from storage_agent.ignite.tls import ServerTls

# All default ports are below the ephemeral range (32768 to 60999 on Linux): otherwise an outgoing
# connection of any process may have the port when the server starts.
_DISCOVERY_PORT = 10900


class IgniteSettings(CheckedSettings):
    """The Ignite server of this machine; all its ports are at one address, by default loopback."""

    home: Path = Field(default=Path(".mistbow"), description="Folder of data, logs and downloads.")
    jars: Path | None = Field(
        default=None, description="Folder of Ignite's jars; by default HOME/jars."
    )
    ignite_port: int = Field(
        default=10800, ge=1, le=65535, description="Ignite's thin-client port."
    )
    ignite_communication_port: int = Field(
        default=10700, ge=1, le=65535, description="Port for communication of Ignite nodes."
    )
    ignite_address: Host = Field(
        default=LOOPBACK,
        description="Address at which Ignite listens, in the network of the site.",
    )
    ignite_nodes: str = Field(
        default="",
        description="All Ignite nodes of a site of several nodes, including this node: "
        "ADDRESS:DISCOVERYPORT,….",
    )
    ignite_discovery_port: int = Field(
        default=None,  # replaced by _find_discovery_port
        validate_default=True,
        ge=1,
        le=65535,
        description="Port for the discovery of Ignite nodes; by default the port of this node in "
        f"MISTBOW_IGNITE_NODES, else {_DISCOVERY_PORT}.",
    )
    ignite_tls_ca: AuthoritiesFile = Field(default=None, description=IGNITE_TLS_CA)
    ignite_keystore: Path | None = Field(
        default=None,
        description="Key store (PKCS12) by which Ignite's thin-client port serves TLS.",
    )
    ignite_keystore_password: SecretStr | None = Field(
        default=None, validate_default=True, description="Password of the key store."
    )

    @field_validator("ignite_keystore_password")
    @classmethod
    def _of_keystore(cls, password: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        found = info.data
        if "ignite_keystore" not in found or "ignite_tls_ca" not in found:
            return password
        store: Path | None = found["ignite_keystore"]
        if len({store is None, password is None, found["ignite_tls_ca"] is None}) > 1:
            raise ValueError(
                "MISTBOW_IGNITE_KEYSTORE, MISTBOW_IGNITE_KEYSTORE_PASSWORD and "
                "MISTBOW_IGNITE_TLS_CA go together; not all are set"
            )
        if store is not None:
            check_readable(store)
        # Spring would take it for an expression.
        if password is not None and "#{" in password.get_secret_value():
            raise ValueError(
                "the password contains "
                "#{, which Ignite's configuration would evaluate: choose another password"
            )
        return password

    ignite_heap_mb: int = Field(default=128, ge=64, le=1_048_576, description="Heap of Ignite, MB.")
    ignite_backups: int = Field(
        default=1,
        ge=0,
        le=5,
        description="Additional copies of all data, on other Ignite nodes of the site.",
    )
    durability: Durability = Field(
        default="fsync",
        description="The failure that an acknowledged write survives. fsync: a power cut, "
        "log: a crash of the process, memory: none.",
    )

    @field_validator("ignite_nodes")
    @classmethod
    def _check_form(cls, nodes: str) -> str:
        parse_addresses(nodes)
        return nodes

    @field_validator("ignite_discovery_port", mode="before")
    @classmethod
    def _find_discovery_port(cls, port: object, info: ValidationInfo) -> object:
        if port is not None:
            return port
        nodes = parse_addresses(info.data.get("ignite_nodes", ""))
        own = [port for host, port in nodes if host == info.data.get("ignite_address")]
        return own[0] if len(own) == 1 else _DISCOVERY_PORT

    @field_validator("ignite_discovery_port")
    @classmethod
    def _check_nodes(cls, port: int, info: ValidationInfo) -> int:
        nodes = parse_addresses(info.data.get("ignite_nodes", ""))
        own = info.data.get("ignite_address"), port
        if nodes and own not in nodes:
            raise ValueError(f"MISTBOW_IGNITE_NODES lacks this node: add {own[0]}:{own[1]}")
        return port

    @property
    def site_nodes(self) -> tuple[str, ...]:
        """The discovery addresses of all Ignite nodes of the site; empty: the site has a single
        node.
        """
        return tuple(f"{host}:{port}" for host, port in parse_addresses(self.ignite_nodes))

    @property
    def ignite_tls(self) -> ServerTls | None:
        """The key store and the authorities for TLS at the thin-client port; None: TLS is off."""
        store, password, ca = (
            self.ignite_keystore,
            self.ignite_keystore_password,
            self.ignite_tls_ca,
        )
        if store is None or password is None or ca is None:
            return None
        return ServerTls(store, password.get_secret_value(), ca)

    @property
    def jars_folder(self) -> Path:
        """The folder that contains Ignite's jars."""
        return self.jars or self.home / "jars"

    @property
    def ports(self) -> dict[str, int]:
        """All ports of the server: name of the setting -> port."""
        names = [name for name in type(self).model_fields if name.endswith("_port")]
        return {name: getattr(self, name) for name in names}
