"""The Prometheus HTTP API over points and results: what Grafana's built-in data source asks for."""
