"""The enabler's REST API."""
