"""The REST API of the enabler."""
