"""The clients with which the processes of a streaming library call storage agents.

A client takes the worker's identity from the environment variable ``MISTBOW_IDENTITY_FILE``, or the
fog's token from ``MISTBOW_TOKEN``, the certificate authority that it trusts from
``MISTBOW_TLS_CA``, and the worker's certificate from ``MISTBOW_TLS_CERT``. Spark's options contain
none of these, since Spark shows options in its query plans.
"""

from stamina.instrumentation import set_on_retry_hooks

from mistbow.client.agent import AgentClient
from mistbow.client.credentials import (
    proof_of_environment,
    service_credentials,
    tls_of_environment,
)

_clients: dict[tuple[str, str], AgentClient] = {}


def agent_client(url: str, site: str = "") -> AgentClient:
    """Return a client for the streams of a site; the client sends its calls to the agent at
    ``url``.

    If ``site`` is empty, the client reads and writes the streams of the agent's own site. The
    process reuses one client for each URL and site, since Spark reuses its Python processes.
    """
    client = _clients.get((url, site))
    if client is None and site:
        client = _clients[url, site] = agent_client(url).at(site)
    elif client is None:
        # Spark's Python processes have no log but their terminal.
        set_on_retry_hooks([])
        client = _clients[url, site] = AgentClient(
            url,
            service_credentials(url, proof_of_environment(), "agent"),
            ca=tls_of_environment(),
        )
    return client
