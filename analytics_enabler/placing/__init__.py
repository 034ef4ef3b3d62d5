"""Deciding which worker runs what: the fabric as schedulers see it, and their decisions."""
