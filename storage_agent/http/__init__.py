"""The HTTP parts that all routes of the agent share: bodies, answers and hot routes."""
