"""A workload: the reports of the buses of a city.

A workload with the same seed, rate and start time has the same points.
"""

from city_workload.sender import DeliveryCount, nearest_agents, send
from city_workload.sender_token import SenderToken
from city_workload.traffic import City, TickBatch, batches

__all__ = [
    "City",
    "DeliveryCount",
    "SenderToken",
    "TickBatch",
    "batches",
    "nearest_agents",
    "send",
]
