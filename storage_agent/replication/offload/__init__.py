"""Offload: moves old points to another site, and reads these points from the other site."""
