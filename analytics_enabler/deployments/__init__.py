"""Deployments, stored in a stream of the storage agent and cached in memory."""
