"""Replication policies: plug-ins that decide which copies this site's streams have."""
