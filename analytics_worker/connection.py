"""How the processes of a streaming library reach the storage agent.

The token, where one is needed, comes from ``MISTBOW_TOKEN``, and whom to trust from
``MISTBOW_TLS_CA``: options show in plans, and the token must not.
"""

import os

from stamina.instrumentation import set_on_retry_hooks

from mistbow.client.agent import AgentClient

_clients: dict[tuple[str, str], AgentClient] = {}


def connect(url: str, site: str = "") -> AgentClient:
    """Return this process's client of the streams of a site, by the agent at ``url``.

    Spark's Python workers live on and are reused; without a site it is the agent's own.
    """
    client = _clients.get((url, site))
    if client is None and site:
        client = _clients[url, site] = connect(url).at(site)
    elif client is None:
        # Spark's Python processes have no log but their terminal.
        set_on_retry_hooks([])
        client = _clients[url, site] = AgentClient(
            url, os.environ.get("MISTBOW_TOKEN"), ca=os.environ.get("MISTBOW_TLS_CA")
        )
    return client
