"""Stratified sampling: sampling keys, allocation to strata, and estimates with error bounds."""
