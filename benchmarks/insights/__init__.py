"""Benchmarks of insights: the cost of many insights, and the delay of their results."""
