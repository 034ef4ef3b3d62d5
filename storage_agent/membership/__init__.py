"""Membership: exchanges heartbeats and facts with peers, and sends requests to peers."""
