"""The settings of every service, each by a ``MISTBOW_*`` variable or a flag."""

import re
import socket
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, Json, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings

from mistbow.auth.token_file import read_token_file
from mistbow.errors import InvalidRequestError
from mistbow.ignite.tls import ServerTls
from mistbow.labels import parse_labels
from mistbow.ports import LOOPBACK
from mistbow.tls import check_readable
from mistbow.topics import template_fault
from mistbow.trust_settings import ServedBy, TlsSettings, TokenSettings

Durability = Literal["fsync", "log", "memory"]

_SITE_LENGTH = 40
_SITE_NAME = re.compile(rf"[a-z0-9][a-z0-9.-]{{0,{_SITE_LENGTH - 1}}}")


def is_site_name(text: str) -> bool:
    """Tell whether a text can be a site's name; such a name can be part of a stream's."""
    return _SITE_NAME.fullmatch(text) is not None


def is_service_url(text: str) -> bool:
    """Tell whether a text is the address of a service: ``http://HOST:PORT`` or https."""
    try:
        parts = urlsplit(text)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    alone = not (parts.query or parts.fragment or parts.username or parts.password)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and has_port and alone


def is_broker_url(text: str) -> bool:
    """Tell whether a text is the address of an MQTT broker: ``mqtt://HOST`` or mqtts."""
    try:
        parts = urlsplit(text)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    alone = parts.path in ("", "/") and not (parts.query or parts.fragment)
    return parts.scheme in ("mqtt", "mqtts") and bool(parts.hostname) and has_port and alone


def addresses(text: str, default_port: int | None = None) -> tuple[tuple[str, int], ...]:
    """Return the addresses of ``HOST:PORT,…``; raises ``ValueError`` for one that is none."""
    found = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon and default_port is not None:
            host, port = part, str(default_port)
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{part} is not of the form HOST:PORT")
        found.append((host, int(port)))
    return tuple(found)


def _listed(urls: str) -> list[str]:
    return [url.strip().rstrip("/") for url in urls.split(",") if url.strip()]


def _are_labels(text: str) -> str:
    try:
        parse_labels(text)
    except InvalidRequestError as error:
        raise ValueError(f"{error.message}. {error.hint}") from None
    return text


Labels = Annotated[str, AfterValidator(_are_labels)]


_IGNITE_TLS_CA = "Certificates (PEM) of the authorities by which Ignite is trusted; asks for TLS."


class ServiceSettings(TlsSettings):
    """What every service listens on, logs to and is guarded by."""

    home: Path = Field(default=Path(".mistbow"), description="Folder of data, logs and downloads.")
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe level that is logged."
    )
    max_body_bytes: int = Field(
        default=8 * 2**20, ge=1024, description="Largest request body, bytes."
    )
    body_seconds: float = Field(
        default=60.0, gt=0, description="How long a request's body may take to come, seconds."
    )
    max_requests: int = Field(default=256, ge=1, description="Most requests at once.")
    max_followers: int = Field(
        default=500, ge=1, description="Most requests at once that wait or follow."
    )
    tokens_file: Path | None = Field(
        default=None, description="File of further tokens, which mistbow token add makes."
    )

    @field_validator("tokens_file")
    @classmethod
    def _of_tokens(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        if file is None:
            return None
        if "token" in info.data and info.data["token"] is None:
            raise ValueError(
                "MISTBOW_TOKEN or MISTBOW_TOKEN_FILE must be set too: services use that one "
                "among themselves"
            )
        try:
            read_token_file(file)
        except InvalidRequestError as error:
            raise ValueError(". ".join(filter(None, (error.message, error.hint)))) from None
        return file


class IgniteSettings(BaseSettings):
    """The Ignite server of this machine; all its ports are at one address, by default loopback."""

    model_config = TokenSettings.model_config

    home: Path = Field(default=Path(".mistbow"), description="Folder of data, logs and downloads.")
    jars: Path | None = Field(
        default=None, description="Folder of Ignite's jars; by default HOME/jars."
    )
    ignite_port: int = Field(
        default=10800, ge=1, le=65535, description="Ignite's thin-client port."
    )
    ignite_discovery_port: int = Field(
        default=47500, ge=1, le=65535, description="Port by which Ignite's nodes find each other."
    )
    ignite_communication_port: int = Field(
        default=47100, ge=1, le=65535, description="Port by which Ignite's nodes talk."
    )
    ignite_address: str = Field(
        default=LOOPBACK,
        description="Address of this machine that Ignite listens on: one of its site's network.",
    )
    ignite_nodes: str = Field(
        default="",
        description="Ignite's nodes of a site of several: ADDRESS:DISCOVERYPORT,… of all, "
        "this one too.",
    )
    ignite_tls_ca: ServedBy = Field(default=None, description=_IGNITE_TLS_CA)
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
            raise ValueError("a password with #{ in it cannot be given to Ignite")
        return password

    ignite_heap_mb: int = Field(default=128, ge=64, description="Heap of Ignite, MB.")
    ignite_backups: int = Field(
        default=1,
        ge=0,
        le=5,
        description="Further copies that a site of several Ignite nodes keeps of all, on as many "
        "other nodes.",
    )
    durability: Durability = Field(
        default="fsync",
        description="What an acknowledged write survives: fsync: a power cut, "
        "log: a crash of the process, memory: nothing.",
    )

    @field_validator("ignite_nodes")
    @classmethod
    def _is_among(cls, nodes: str, info: ValidationInfo) -> str:
        listed = addresses(nodes)
        own = info.data.get("ignite_address"), info.data.get("ignite_discovery_port")
        if listed and own not in listed:
            raise ValueError(f"this node is not among them: {own[0]}:{own[1]}")
        return nodes

    @property
    def site_nodes(self) -> tuple[str, ...]:
        """Where the site's Ignite nodes find each other, this one too; none if it is alone."""
        return tuple(f"{host}:{port}" for host, port in addresses(self.ignite_nodes))

    @property
    def ignite_tls(self) -> ServerTls | None:
        """What the thin-client port serves TLS by, or None."""
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
        """Where Ignite's jars are."""
        return self.jars or self.home / "jars"

    @property
    def ports(self) -> dict[str, int]:
        """Every port that is set, by the name of its setting."""
        names = [name for name in type(self).model_fields if name.endswith("_port")]
        return {name: getattr(self, name) for name in names}


class AgentSettings(ServiceSettings):
    """The storage agent."""

    agent_port: int = Field(default=50000, ge=0, le=65535, description="Port of the storage agent.")
    node: str = Field(default_factory=socket.gethostname, description="This node's name.")
    site: str = Field(
        default="",
        validate_default=True,
        description="Site of this node; by default named after the node.",
    )
    region: str = Field(default="", description="Region of this node.")
    labels: Labels = Field(default="", description="Labels of this node: key=value,key=value.")
    ignite_tls_ca: ServedBy = Field(default=None, description=_IGNITE_TLS_CA)
    ignite_port: int = Field(
        default=10800, ge=1, le=65535, description="Ignite's thin-client port."
    )
    ignite_host: str = Field(
        default="127.0.0.1",
        description="Address of Ignite's thin-client port; of a site of several nodes all: "
        "HOST:PORT,… in the order in which they are tried.",
    )
    lateness_ms: int = Field(
        default=1000, ge=0, le=3_600_000, description="How late a point may come, milliseconds."
    )
    max_points: int = Field(default=100_000, ge=1, description="Most points in one body.")
    retention_s: int | None = Field(
        default=30 * 86_400,
        ge=1,
        description="Rows are kept so long after they came, seconds; PUT /config changes it.",
    )
    max_disk_mb: int | None = Field(
        default=None, ge=1, description="What streams may take on disk, MB; PUT /config changes it."
    )
    when_away: Literal["spool", "refuse"] = Field(
        default="spool",
        description="While Ignite is away: points wait on this node's disk (202), "
        "or are refused (503).",
    )
    spool_mb: int = Field(
        default=256, ge=1, description="What points that wait may take on disk, MB."
    )
    when_full: Literal["evict", "refuse"] = Field(
        default="evict",
        description="When streams take that much: the oldest rows go, or writes are refused.",
    )
    sql_seconds: float = Field(
        default=10.0, gt=0, le=600, description="Time that a query in SQL may take, seconds."
    )
    sql_memory_mb: int = Field(
        default=256, ge=16, description="Memory that a query in SQL may take, MiB."
    )
    sql_max_rows: int = Field(
        default=100_000, ge=1, description="Most rows in the answer to a query in SQL."
    )
    sql_queries: int = Field(default=2, ge=1, description="Most queries in SQL at once.")
    promql_seconds: float = Field(
        default=30.0, gt=0, le=600, description="Time that a PromQL query may take, seconds."
    )
    promql_samples: int = Field(
        default=2_000_000,
        ge=1000,
        description="Most samples that a PromQL query may read, and have at once.",
    )
    collect_routes: bool = Field(
        default=True, description="Whether this host's routing tables are kept as records."
    )
    agent_url: str = Field(
        default="http://127.0.0.1:50000",
        description="This agent's address as other sites reach it.",
    )
    peers: str = Field(
        default="", description="Agents of some other sites: URL,URL. The rest is learned."
    )
    replication_policy: str = Field(
        default="fragile-first",
        description="What decides which copies other sites hold; empty: only who asks for them.",
    )
    replication_every_ms: int = Field(
        default=5000, ge=100, description="Time between two decisions of that, milliseconds."
    )
    replica_free_mb: int = Field(
        default=1024, ge=0, description="Replicas grow no more when less disk than this is free."
    )
    durability: Durability = Field(
        default="fsync",
        description="What a write to this site's Ignite survives; to memory nothing is moved.",
    )
    move_after_s: int = Field(
        default=3600, ge=1, description="Points that are to move stay here for so long at least, s."
    )
    restrictions: str = Field(
        default="",
        description="Data that may not be copied everywhere, as JSON: "
        '[{"match": {"group": ["patients"]}, "stay_in": ["a region or site"]}].',
    )

    remote_write_entity: str = Field(
        default="instance",
        min_length=1,
        description="Label that is the entity of points of Prometheus remote write.",
    )
    influx_entity: str = Field(
        default="host",
        min_length=1,
        description="Tag that is the entity of points in line protocol.",
    )
    mqtt_url: SecretStr | None = Field(
        default=None,
        description="MQTT broker to follow: mqtt://user:password@host:port, or mqtts.",
    )
    mqtt_topics: str = Field(
        default="sensors/{entityID}/{metricID}",
        description="Topics to follow, and what their levels say: TEMPLATE,TEMPLATE.",
    )

    @field_validator("site")
    @classmethod
    def _named(cls, site: str, info: ValidationInfo) -> str:
        if not site:
            # A host's name may hold what a site's may not; nobody chose it, so it is made to fit.
            made = re.sub("[^a-z0-9.-]+", "-", str(info.data.get("node", "")).lower())
            site = made.lstrip(".-")[:_SITE_LENGTH]
        if not is_site_name(site.lower()):
            raise ValueError(
                "a site's name is made of letters, digits, . and -, begins with a letter or "
                f"digit, and is no longer than {_SITE_LENGTH}"
            )
        return site.lower()

    @field_validator("agent_url", "peers")
    @classmethod
    def _addressed(cls, urls: str, info: ValidationInfo) -> str:
        listed = _listed(urls)
        if info.field_name == "agent_url" and len(listed) != 1:
            raise ValueError("it is not one address of the form http://HOST:PORT")
        for url in listed:
            if not is_service_url(url):
                raise ValueError("not every one is an address of the form http://HOST:PORT")
        return ",".join(listed)

    @field_validator("mqtt_url")
    @classmethod
    def _of_a_broker(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not is_broker_url(url.get_secret_value()):
            raise ValueError("it is not of the form mqtt://user:password@host:port")
        return url

    @field_validator("mqtt_topics")
    @classmethod
    def _templates(cls, topics: str) -> str:
        for template in topics.split(","):
            if fault := template_fault(template.strip()):
                raise ValueError(f"{template.strip()!r}: {fault}")
        return topics

    @property
    def topic_templates(self) -> tuple[str, ...]:
        """The templates of topics, one by one."""
        return tuple(template.strip() for template in self.mqtt_topics.split(","))

    @field_validator("ignite_host")
    @classmethod
    def _dialled(cls, hosts: str, info: ValidationInfo) -> str:
        if not addresses(hosts, info.data.get("ignite_port", 1)):
            raise ValueError("it is empty")
        return hosts

    @property
    def ignite_addresses(self) -> tuple[tuple[str, int], ...]:
        """Where Ignite's nodes are dialled: host and port."""
        return addresses(self.ignite_host, self.ignite_port)

    @property
    def peer_urls(self) -> tuple[str, ...]:
        """The addresses of peers, one by one."""
        return tuple(_listed(self.peers))


class WorkerSettings(ServiceSettings):
    """The analytics worker."""

    worker_port: int = Field(
        default=8100, ge=0, le=65535, description="Port of the analytics worker."
    )
    agent_url: str = Field(
        default="http://127.0.0.1:50000", description="Storage agent of this site."
    )
    worker_url: str = Field(
        default="http://127.0.0.1:8100", description="This worker's address as others reach it."
    )
    node: str = Field(default_factory=socket.gethostname, description="This node's name.")
    region: str = Field(default="", description="Region of this node.")
    labels: Labels = Field(default="", description="Labels of this node: key=value,key=value.")
    spark_master: str = Field(default="local[*]", description="Spark master.")
    driver_memory: str = Field(default="768m", description="Heap of Spark's driver.")


class EnablerSettings(ServiceSettings):
    """The analytics enabler."""

    enabler_port: int = Field(default=8000, ge=0, le=65535, description="Port of the enabler.")
    agent_url: str = Field(
        default="http://127.0.0.1:50000", description="Storage agent of this site."
    )
    scheduler: str = Field(default="fair", description="Scheduler of the insights that name none.")
    scheduler_settings: Json[dict[str, dict[str, str]]] = Field(
        default="{}",  # type: ignore[arg-type]  # it is read as if it were given
        description="Settings of schedulers, as JSON: scheduler to key to value, all texts.",
    )
    patience_ms: int = Field(
        default=5000,
        ge=0,
        description="How long results wait for a silent site, milliseconds.",
    )


class StorageSettings(IgniteSettings, TlsSettings):
    """A site's storage: its Ignite and its storage agent, which has settings of its own as well."""

    host: str = Field(default="127.0.0.1", description="Address that the agent listens on.")
    agent_port: int = Field(default=50000, ge=1, le=65535, description="Port of the storage agent.")


class RunSettings(IgniteSettings, TlsSettings):
    """The whole suite on this machine, on loopback."""

    agent_port: int = Field(default=50000, ge=1, le=65535, description="Port of the storage agent.")
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
