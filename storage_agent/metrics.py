"""The Prometheus metrics that a storage agent exposes."""

from contextlib import suppress

from prometheus_client import Counter, Gauge, Histogram

POINTS = Counter("mistbow_agent_points", "Points acknowledged by /put.")
INGESTED_POINTS = Counter(
    "mistbow_agent_ingested_points",
    "Points stored by other protocols than /put, by protocol.",
    ["source"],
)
REFUSED_POINTS = Counter(
    "mistbow_agent_refused_points",
    "Points, or MQTT messages, that other protocols than /put rejected, by reason.",
    ["source", "reason"],
)
SKIPPED_ITEMS = Counter(
    "mistbow_agent_remote_write_skipped",
    "Items of remote write that are not stored, by kind: exemplar.",
    ["kind"],
)
MQTT_CONNECTED = Gauge(
    "mistbow_agent_mqtt_connected",
    "1 while the agent is connected to its MQTT broker; absent without a broker.",
    ["broker"],
)
LATE_POINTS = Counter("mistbow_agent_late_points", "Points that arrived at or before the frontier.")
RECORDS = Counter("mistbow_agent_records", "Records stored, by kind.", ["kind"])
FUTURE_POINTS = Counter("mistbow_agent_future_points", "Points stored ahead of the clock.")
REQUESTS = Counter("mistbow_agent_requests", "Requests to /put and /get.", ["path", "status"])
PUT_SECONDS = Histogram(
    "mistbow_agent_put_seconds",
    "Seconds from the arrival of a /put to its response.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
SEGMENTS = Counter("mistbow_agent_segments", "Segments stored.", ["stream"])
SEGMENT_BYTES = Counter("mistbow_agent_segment_bytes", "Bytes of segments stored.", ["stream"])
HEAD = Gauge("mistbow_agent_head", "The position after the last row of a stream.", ["stream"])
IGNITE_CONNECTIONS = Counter("mistbow_agent_ignite_connections", "Connections made to Ignite.")
LINK_BYTES = Counter(
    "mistbow_agent_link_bytes",
    "Bytes of bodies sent to and received from peers, by kind: heartbeat, metadata, "
    "replication, proxy, probe.",
    ["site", "direction", "kind"],
)
COMPACTIONS = Counter("mistbow_agent_compactions", "Runs built by compaction.", ["stream"])
EVICTED_ROWS = Counter(
    "mistbow_agent_evicted_rows",
    "Rows that expired, or were evicted at the storage limit.",
    ["stream"],
)
LIMIT_EVICTED_ROWS = Counter(
    "mistbow_agent_limit_evicted_rows",
    "Rows that were evicted at the storage limit, before they had expired.",
)
DISK_FREE = Gauge("mistbow_agent_disk_free_bytes", "Free bytes of the disk with the agent's home.")
DISK_SIZE = Gauge("mistbow_agent_disk_size_bytes", "Size of the disk with the agent's home.")
DISK_FREE_INODES = Gauge(
    "mistbow_agent_disk_free_inodes", "Free inodes of the disk with the agent's home."
)
DISK_INODES = Gauge(
    "mistbow_agent_disk_inodes",
    "Inodes of the disk with the agent's home; 0: the file system has no such limit.",
)
CLOCK_SKEW = Gauge(
    "mistbow_agent_clock_skew_seconds",
    "Difference between a peer's clock and this agent's; above 0: the peer's is ahead.",
    ["site"],
)
CLOCK_SKEW_ERROR = Gauge(
    "mistbow_agent_clock_skew_error_seconds",
    "The largest possible error of the difference between a peer's clock and this agent's.",
    ["site"],
)
PEER_REACHABLE = Gauge(
    "mistbow_agent_peer_reachable",
    "1 while requests of this agent reach a site, directly or through another site.",
    ["site"],
)
STORED_BYTES = Gauge("mistbow_agent_stored_bytes", "Bytes of all streams as stored.")
NODES = Gauge("mistbow_agent_ignite_nodes", "Nodes of this site's Ignite that are running.")
COPIES = Gauge(
    "mistbow_agent_ignite_copies",
    "The average number of up-to-date copies of a partition, rounded down.",
)
EXPECTED_COPIES = Gauge(
    "mistbow_agent_ignite_expected_copies",
    "The number of copies of a partition while all nodes of this site's Ignite run.",
)
REBALANCING = Gauge(
    "mistbow_agent_ignite_rebalancing", "1 while a node receives the data that it missed."
)
REFUSED = Gauge(
    "mistbow_agent_refused_streams", "Streams refused because acknowledged rows are lost."
)
SPOOLED_POINTS = Counter(
    "mistbow_agent_spooled_points", "Points spooled while Ignite was unavailable."
)
SPOOLED_BODIES = Gauge("mistbow_agent_spooled_bodies", "Bodies in the spool.")
SPOOLED_BYTES = Gauge("mistbow_agent_spooled_bytes", "Bytes in the spool.")
SPOOL_DAMAGED_FILES = Gauge(
    "mistbow_agent_spool_damaged_files",
    "Damaged parts of the spool that are set aside as files; 0: the spool is intact.",
)
SPOOL_REFUSED_POINTS = Counter(
    "mistbow_agent_spool_refused_points", "Spooled points that were rejected later."
)


def forget_stream(name: str, key: str) -> None:
    """Remove the metrics of a deleted stream; ``key``: the key of its log."""
    labels = {SEGMENTS: key, SEGMENT_BYTES: key, HEAD: name, COMPACTIONS: name, EVICTED_ROWS: name}
    for metric, label in labels.items():
        with suppress(KeyError):
            metric.remove(label)
