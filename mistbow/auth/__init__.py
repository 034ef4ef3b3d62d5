"""Callers and their rights: tokens, scopes, the access rules of routes, and the service key."""
