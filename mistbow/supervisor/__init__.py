"""Running the whole suite on one machine: start, keep, show and stop its processes."""
