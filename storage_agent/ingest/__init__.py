"""The ingestion of points by Prometheus remote write, Influx line protocol and MQTT."""
