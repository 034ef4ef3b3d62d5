"""The input and output of schedulers as immutable data: fog snapshot, jobs and placements."""
