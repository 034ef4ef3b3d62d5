"""Collectors of points: from the host, from the host's processes and from JSON sources."""
