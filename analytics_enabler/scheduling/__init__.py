"""Scheduling: plug-ins decide which node runs which fragment; a driver applies decisions."""
