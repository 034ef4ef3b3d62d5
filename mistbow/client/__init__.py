"""The typed Python client of Mistbow's services, sync and async."""

from mistbow.client.agent import AgentClient, AsyncAgentClient, Point

__all__ = ["AgentClient", "AsyncAgentClient", "Point"]
