"""The typed Python client of Mistbow's services, sync and async."""
