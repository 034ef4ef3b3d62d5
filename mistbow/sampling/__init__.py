"""Sampling at the source: the moving average PEWMA, requests for adaptive sampling, and weights."""
