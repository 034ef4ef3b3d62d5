"""Benchmarks of a storage agent: throughput, latency, memory and disk space."""
