"""Streams: segments in Ignite, the writer of each, reading and following them."""
