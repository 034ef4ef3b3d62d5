"""Streams: stores appended rows as segments in Ignite, and reads the stored and the new rows."""
