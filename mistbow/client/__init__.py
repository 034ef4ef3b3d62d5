"""The typed Python clients of the storage agent, sync and async."""

from mistbow.client.agent import AgentClient, AsyncAgentClient
from mistbow.client.agent_model import Point

__all__ = ["AgentClient", "AsyncAgentClient", "Point"]
