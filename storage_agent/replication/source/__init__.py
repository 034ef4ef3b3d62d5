"""The replication source: the copies of this site's streams, and the rows sent to followers."""
