"""Failover: replicas answer reads in place of a site that is unreachable."""
