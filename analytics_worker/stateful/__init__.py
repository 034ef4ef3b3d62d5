"""The states of accumulators (functions over all points since a start), and their correction."""
