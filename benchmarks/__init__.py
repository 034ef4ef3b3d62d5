"""Benchmarks of the suite on this machine: ``make bench``."""
