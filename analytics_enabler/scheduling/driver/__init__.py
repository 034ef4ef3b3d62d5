"""The driver of the schedulers: sends jobs and a fog snapshot to them, and stores decisions."""
