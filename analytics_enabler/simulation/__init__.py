"""The simulator: runs schedulers on simulated fogs, over simulated hours."""
