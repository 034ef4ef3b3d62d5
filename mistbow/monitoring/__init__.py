"""The monitoring agent: it measures its host and posts that to its storage agent."""
