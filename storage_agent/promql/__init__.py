"""The part of the Prometheus HTTP API that Grafana's data source uses.

The API answers PromQL queries from the points of a site and the results of its insights.
"""
