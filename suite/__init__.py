"""The whole suite on one machine: starting, supervising and stopping the processes."""
