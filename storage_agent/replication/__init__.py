"""Replication: copies of this site's streams elsewhere, and replicas of other sites' streams."""
