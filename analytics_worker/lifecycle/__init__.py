"""The life cycle of fragments on a worker: start, handover, load shedding and stop."""
