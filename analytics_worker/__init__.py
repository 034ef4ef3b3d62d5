"""The analytics worker: a service that runs fragments of insights on Spark Structured Streaming."""
