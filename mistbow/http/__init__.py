"""Limits on HTTP requests: their size, their duration, and the number of concurrent requests."""
