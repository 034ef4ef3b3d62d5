"""Runs Apache Ignite on this machine: jars, configuration, and process."""
