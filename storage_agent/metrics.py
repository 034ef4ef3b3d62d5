"""What a storage agent counts, for Prometheus."""

from prometheus_client import Counter, Gauge, Histogram

POINTS = Counter("mistbow_agent_points", "Points acknowledged by /put.")
INGESTED_POINTS = Counter(
    "mistbow_agent_ingested_points", "Points stored by another way in than /put.", ["source"]
)
REFUSED_POINTS = Counter(
    "mistbow_agent_refused_points",
    "Points, or messages of MQTT, that another way in than /put did not store, by reason.",
    ["source", "reason"],
)
SKIPPED = Counter(
    "mistbow_agent_remote_write_skipped",
    "What Prometheus sent beside points, and is not kept, by kind: stale marker, exemplar.",
    ["kind"],
)
MQTT_CONNECTED = Gauge("mistbow_agent_mqtt_connected", "1 while the MQTT broker is followed.")
LATE_POINTS = Counter("mistbow_agent_late_points", "Points that came after the frontier.")
RECORDS = Counter("mistbow_agent_records", "Records stored, by kind.", ["kind"])
AHEAD_POINTS = Counter("mistbow_agent_ahead_points", "Points stored ahead of the clock.")
REQUESTS = Counter("mistbow_agent_requests", "Requests to /put and /get.", ["path", "status"])
PUT_SECONDS = Histogram(
    "mistbow_agent_put_seconds",
    "Time from a /put's arrival to its answer.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
SEGMENTS = Counter("mistbow_agent_segments", "Segments stored.", ["stream"])
SEGMENT_BYTES = Counter("mistbow_agent_segment_bytes", "Bytes of segments stored.", ["stream"])
HEAD = Gauge("mistbow_agent_head", "The next number of a stream.", ["stream"])
IGNITE_CONNECTIONS = Counter("mistbow_agent_ignite_connections", "Times that Ignite was dialled.")
LINK_BYTES = Counter(
    "mistbow_agent_link_bytes",
    "Bytes of bodies to and from the next site on their way, by kind: greeting, metadata, "
    "replication, relay.",
    ["site", "direction", "kind"],
)
MERGES = Counter("mistbow_agent_merges", "Runs made by compaction.", ["stream"])
EVICTED_ROWS = Counter("mistbow_agent_evicted_rows", "Rows that expired or had to go.", ["stream"])
STORED_BYTES = Gauge("mistbow_agent_stored_bytes", "Bytes of all streams as they are kept.")
NODES = Gauge("mistbow_agent_ignite_nodes", "Nodes of this site's Ignite that are there.")
COPIES = Gauge("mistbow_agent_ignite_copies", "Nodes that have all of each part, at least.")
REBALANCING = Gauge("mistbow_agent_ignite_rebalancing", "1 while a node is brought up to date.")
REFUSED = Gauge("mistbow_agent_refused_streams", "Streams that lost what was acknowledged.")
SPOOLED_POINTS = Counter("mistbow_agent_spooled_points", "Points spooled while Ignite was away.")
SPOOLED_BODIES = Gauge("mistbow_agent_spooled_bodies", "Bodies that wait in the spool.")
SPOOLED_BYTES = Gauge("mistbow_agent_spooled_bytes", "Bytes that wait in the spool.")
SPOOL_REFUSED_POINTS = Counter(
    "mistbow_agent_spool_refused_points", "Points that waited in the spool and were refused then."
)
