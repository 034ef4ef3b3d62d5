"""The monitoring agent: measures its host, and sends the points to its storage agent."""
