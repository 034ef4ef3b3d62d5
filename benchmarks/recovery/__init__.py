"""The times of recovery after faults of a fog of three sites."""
