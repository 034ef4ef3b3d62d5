"""Spark Structured Streaming, as the engine that runs fragments."""
