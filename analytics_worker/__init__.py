"""The analytics worker: runs fragments on Spark Structured Streaming."""
