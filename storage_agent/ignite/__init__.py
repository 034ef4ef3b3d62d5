"""The client of Ignite, which wraps pyignite, and helpers for caches, values and TLS."""
