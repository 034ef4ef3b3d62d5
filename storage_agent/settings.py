"""The settings of the storage agent."""

import json
import re
import socket
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from mistbow.setting_values import is_host
from mistbow.settings import (
    IGNITE_TLS_CA,
    Durability,
    Labels,
    NodeName,
    Region,
    ServiceSettings,
    own_address,
    parse_addresses,
    parse_urls,
)
from mistbow.site_names import MAX_SITE_NAME, is_site_name
from mistbow.timestamps import TimestampUnit
from mistbow.trust_settings import AuthoritiesFile, check_identity_site
from storage_agent.addresses import is_service_url
from storage_agent.mqtt_topics import template_fault

_MAX_SECONDS = 100 * 366 * 86_400
_MAX_MB = 2**40
"""The maximum of limits on disk (MB), which is an exabyte."""


def is_broker_url(text: str) -> bool:
    """Return whether a text is the URL of an MQTT broker: ``mqtt://HOST`` or ``mqtts://HOST``."""
    try:
        parts = urlsplit(text)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    alone = parts.path in ("", "/") and not (parts.query or parts.fragment)
    return (
        parts.scheme in ("mqtt", "mqtts") and is_host(parts.hostname or "") and has_port and alone
    )


class AgentSettings(ServiceSettings):
    """The settings of a storage agent."""

    service_kind = "agent"
    own_name_settings = ("node",)
    own_url_settings = ("agent_url",)

    agent_port: int = Field(default=8300, ge=0, le=65535, description="Port of the storage agent.")
    node: NodeName = Field(default_factory=socket.gethostname, description="This node's name.")
    site: str = Field(
        default="",
        validate_default=True,
        description="Site of this node; by default named after the node.",
    )
    region: Region = Field(default="", description="Region of this node.")
    labels: Labels = Field(default="", description="Labels of this node: key=value,key=value.")
    ignite_tls_ca: AuthoritiesFile = Field(default=None, description=IGNITE_TLS_CA)
    ignite_port: int = Field(
        default=10800, ge=1, le=65535, description="Ignite's thin-client port."
    )
    ignite_host: str = Field(
        default="127.0.0.1",
        description="Address of Ignite's thin-client port; for several Ignite nodes, all of them "
        "in the order of attempts: HOST:PORT,….",
    )
    lateness_ms: int = Field(
        default=1000,
        ge=0,
        le=3_600_000,
        description="The allowed lateness of points, milliseconds.",
    )
    max_points: int = Field(
        default=100_000,
        ge=1,
        le=100_000_000,
        description="The maximum number of points in one body.",
    )
    max_series: int = Field(
        default=5_000_000,
        ge=1,
        le=100_000_000,
        description="The maximum number of series of the site. A body whose new series would "
        "exceed it is refused (413); bodies without new series are stored.",
    )
    retention_s: int | None = Field(
        default=30 * 86_400,
        ge=1,
        le=_MAX_SECONDS,
        description="The retention of rows after their arrival, seconds; PUT /config changes it.",
    )
    max_disk_mb: int | None = Field(
        default=None,
        ge=1,
        le=_MAX_MB,
        description="The limit of all streams on disk, MB; PUT /config changes it.",
    )
    when_away: Literal["spool", "refuse"] = Field(
        default="spool",
        description="While Ignite is unavailable: spool points on this node's disk (202), "
        "or refuse them (503).",
    )
    spool_mb: int = Field(
        default=256, ge=1, le=_MAX_MB, description="The limit of spooled points on disk, MB."
    )
    when_full: Literal["evict", "refuse"] = Field(
        default="evict",
        description="At the limit of all streams: evict the oldest rows, or refuse writes.",
    )
    when_fenced: Literal["stay", "end"] = Field(
        default="stay",
        description="After another agent has claimed the points of the site: refuse writes, "
        "or end the process, for a supervisor to restart.",
    )
    sql_seconds: float = Field(
        default=10.0, gt=0, le=600, description="The time limit of an SQL query, seconds."
    )
    sql_memory_mb: int = Field(
        default=256, ge=16, le=1_048_576, description="The memory limit of an SQL query, MiB."
    )
    sql_max_rows: int = Field(
        default=100_000,
        ge=1,
        le=100_000_000,
        description="The maximum number of rows in the answer to an SQL query.",
    )
    sql_queries: int = Field(
        default=2, ge=1, le=1000, description="The maximum number of concurrent SQL queries."
    )
    duplicates: Literal["keep", "replace"] = Field(
        default="keep",
        description="Whether a point replaces an earlier point of equal series, attributes and "
        "time in the answers of /get, /query and SQL.",
    )
    timestamp_unit: TimestampUnit = Field(
        default="ms",
        description="Timestamps of clients that look like seconds, microseconds or nanoseconds: "
        "refuse them (ms), convert them (auto), or accept every number as ms (unchecked).",
    )
    promql_seconds: float = Field(
        default=30.0, gt=0, le=600, description="The time limit of a PromQL query, seconds."
    )
    promql_samples: int = Field(
        default=2_000_000,
        ge=1000,
        le=1_000_000_000,
        description="The maximum number of samples that a PromQL query may read, and load at once.",
    )
    collect_routes: bool = Field(
        default=True, description="Whether this host's routing tables are stored as records."
    )
    agent_url: str = Field(
        default_factory=own_address("agent_port", 8300),
        description="The address at which other sites reach this agent.",
    )
    peers: str = Field(
        default="", description="Agents at other sites: URL,URL; they report further sites."
    )
    link_probe_s: float = Field(
        default=300.0,
        ge=0,
        le=86_400,
        description="The time between two measurements of a link's bandwidth, each of up to "
        "208 KiB, seconds; 0: the bandwidth is not measured.",
    )
    replication_policy: str = Field(
        default="fragile-first",
        min_length=0,
        description="The replication policy, which decides which copies exist; empty: only "
        "requested copies.",
    )
    replication_every_ms: int = Field(
        default=5000,
        ge=100,
        le=86_400_000,
        description="The time between two decisions of the policy, milliseconds.",
    )
    replica_free_mb: int = Field(
        default=1024,
        ge=0,
        le=_MAX_MB,
        description="The free disk space below which replicas store no further rows, MB.",
    )
    disk_alarm_mb: int = Field(
        default=1024,
        ge=0,
        le=_MAX_MB,
        description="The free disk space below which the agent warns, MB; 0: never.",
    )
    clock_alarm_ms: int = Field(
        default=500,
        ge=10,
        le=3_600_000,
        description="The difference between the clocks of two sites above which the agent warns, "
        "milliseconds.",
    )
    durability: Durability = Field(
        default="fsync",
        description="The failure that an acknowledged write survives. fsync: a power cut, log: a "
        "crash of a process, memory: none. With memory, the site stores no offloaded points.",
    )
    move_after_s: int = Field(
        default=3600,
        ge=1,
        le=_MAX_SECONDS,
        description="The minimum age of points that are offloaded, seconds.",
    )
    restrictions: str = Field(
        default="",
        description="Data that may not be copied to every site, as JSON: "
        '[{"match": {"group": ["patients"]}, "stay_in": ["a region or site"]}].',
    )

    remote_write_entity: str = Field(
        default="instance",
        max_length=1024,
        description="The label of Prometheus remote write that becomes the entity.",
    )
    influx_entity: str = Field(
        default="host",
        max_length=1024,
        description="The tag of line protocol that becomes the entity.",
    )
    mqtt_url: SecretStr | None = Field(
        default=None,
        description="The MQTT broker to subscribe to: mqtt://user:password@host:port, or mqtts.",
    )
    mqtt_topics: str = Field(
        default="sensors/{entityID}/{metricID}",
        description="The topics to subscribe to, with the meaning of levels: TEMPLATE,TEMPLATE.",
    )

    @field_validator("site")
    @classmethod
    def _normalize_site(cls, site: str, info: ValidationInfo) -> str:
        if not site:
            # A host name may have characters that a site's may not: they are replaced.
            made = re.sub("[^a-z0-9.-]+", "-", str(info.data.get("node", "")).lower())
            site = made.lstrip(".-")[:MAX_SITE_NAME]
        if not is_site_name(site.lower()):
            raise ValueError(
                "a site's name consists of letters, digits, . and -, begins with a letter or "
                f"digit, and has at most {MAX_SITE_NAME} characters"
            )
        check_identity_site(info, site.lower())
        return site.lower()

    @field_validator("agent_url", "peers")
    @classmethod
    def _check_urls(cls, urls: str, info: ValidationInfo) -> str:
        listed = parse_urls(urls)
        if info.field_name == "agent_url" and len(listed) != 1:
            raise ValueError("write one address: http://HOST:PORT")
        for url in listed:
            if not is_service_url(url):
                raise ValueError(f"{url} is not an address of the form http://HOST:PORT")
        return ",".join(listed)

    @field_validator("restrictions")
    @classmethod
    def _check_restrictions(cls, restrictions: str) -> str:
        try:
            is_list = not restrictions or isinstance(json.loads(restrictions), list)
        except (ValueError, RecursionError):
            is_list = False
        if not is_list:
            raise ValueError("it must be a list in JSON, with an object for each restriction")
        return restrictions

    @field_validator("mqtt_url")
    @classmethod
    def _check_broker(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not is_broker_url(url.get_secret_value()):
            raise ValueError("write an address of the form mqtt://user:password@host:port")
        return url

    @field_validator("mqtt_topics")
    @classmethod
    def _check_templates(cls, topics: str) -> str:
        for template in topics.split(","):
            if fault := template_fault(template.strip()):
                raise ValueError(f"the template {template.strip()!r}: {fault}")
        return topics

    @property
    def topic_templates(self) -> tuple[str, ...]:
        """The texts of the templates of MQTT topics."""
        return tuple(template.strip() for template in self.mqtt_topics.split(","))

    @field_validator("ignite_host")
    @classmethod
    def _check_hosts(cls, hosts: str, info: ValidationInfo) -> str:
        if not parse_addresses(hosts, info.data.get("ignite_port", 1)):
            raise ValueError(
                "the list of hosts is empty: write one or more of HOST or HOST:PORT, "
                "separated by commas"
            )
        return hosts

    @property
    def ignite_addresses(self) -> tuple[tuple[str, int], ...]:
        """The addresses of Ignite's nodes, as (host, port), in the order of attempts to connect."""
        return parse_addresses(self.ignite_host, self.ignite_port)

    @property
    def peer_urls(self) -> tuple[str, ...]:
        """The URLs of agents at other sites."""
        return tuple(parse_urls(self.peers))
