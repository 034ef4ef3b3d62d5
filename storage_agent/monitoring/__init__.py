"""Monitoring data in the specification's form: points in, latest values and series out."""
