"""The routes of the storage agent's HTTP API."""
