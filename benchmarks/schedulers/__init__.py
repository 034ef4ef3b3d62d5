"""Benchmark of the schedulers on simulated fogs, compared with each other and with baselines."""
