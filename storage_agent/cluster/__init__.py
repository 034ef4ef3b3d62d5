"""A site of several Ignite nodes: how it is, and what it lost when too many of them failed."""
