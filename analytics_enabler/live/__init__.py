"""Live events for pages: each is computed and encoded once, for all clients that follow it."""
