"""A city's buses, as a workload: the same for the same seed, at any rate."""

from mistbow.city.sender import Sent, nearest, send
from mistbow.city.traffic import Batch, City, batches

__all__ = ["Batch", "City", "Sent", "batches", "nearest", "send"]
