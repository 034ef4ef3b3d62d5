"""Streams: their schemas, their form on the wire, and what rows of results mean."""
