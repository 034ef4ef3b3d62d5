"""Calls about the fabric; each function builds the call that one client method sends."""

from dataclasses import replace
from urllib.parse import quote

from mistbow.client.transport import Call, json_of, no_answer, send_json
from mistbow.fabric import Enabler, Fabric, Worker

_ANNOUNCEMENT_S = 3.0
"""The time (s) within which an agent must answer an announcement.

If the connection is dead, the next announcement must still arrive before the service is considered
dead.
"""


def fabric() -> Call[Fabric]:
    """Return all sites that the agent knows, their workers, and the links between the sites."""
    return Call("GET", "/fabric", json_of(Fabric), repeatable=True, local=True)


def announce(worker: Worker) -> Call[None]:
    """Report that a worker of the agent's own site is alive; repeat the report each second.

    The answer is ``ConflictError`` while another live worker has the name.
    """
    # No retries: the next announcement is due sooner.
    call = send_json("PUT", _path(worker.name), worker, no_answer, repeatable=False)
    return replace(call, local=True, answer_s=_ANNOUNCEMENT_S)


def announce_enabler(enabler: Enabler) -> Call[None]:
    """Report that an enabler of the agent's own site is alive; repeat the report each second."""
    path = f"/enablers/{quote(enabler.domain, safe='')}"
    call = send_json("PUT", path, enabler, no_answer, repeatable=False)
    return replace(call, local=True, answer_s=_ANNOUNCEMENT_S)


def remove_enabler(domain: str) -> Call[None]:
    """Report that an enabler of the agent's own site stops."""
    # No retries: an enabler without this report is lost after 3 s.
    return Call("DELETE", f"/enablers/{quote(domain, safe='')}", no_answer, local=True)


def leave(name: str, instance: str = "") -> Call[None]:
    """Report that a worker of the agent's own site stops.

    ``instance``: the id of the worker's process: a process with another id keeps the name.
    """
    params = {"instance": instance} if instance else {}
    return Call("DELETE", _path(name), no_answer, params=params, repeatable=True, local=True)


def _path(worker: str) -> str:
    return f"/workers/{quote(worker, safe='')}"
