"""Other ways in: Prometheus remote write, Influx line protocol, MQTT."""
