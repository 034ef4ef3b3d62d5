"""Streams: schemas, the wire format, and the revisions of results."""
