"""Apache Ignite on this machine: its jars, its configuration, its process."""
