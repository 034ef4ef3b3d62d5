"""The entry point of the image: fills the container's names into its settings, and runs Mistbow.

All replicas of a service have the same settings. So that each is a node of its own, arguments and
variables ``MISTBOW_…`` may contain these fields:

- ``{replica}``: the number of the container among the replicas of its service, from 1.
- ``{dashed:ADDRESS}``: an IPv4 address with hyphens, as Kubernetes names a pod: ``10-0-0-7``.
- ``{of:A,B,C}``: the element of the list with this number; after the last, the first follows.
- ``{self.NETWORK}``: the host name of the container in a network.
- ``{SERVICE-N.NETWORK}``: the host name of replica N of a service in a network.

Other texts in braces remain, such as ``{labels.line}`` in a template of MQTT topics.

The container's identities and tokens are put into the folder ``/run/mistbow`` from outside. The
script waits for those that its settings name.

Docker's name server supplies the names, with compose, ``mistbow fog`` and Fogify alike. The
script imports only the standard library, since it starts each container.
"""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

_FIELD = re.compile(
    r"\{(replica|dashed:[0-9.]+|of:[^{}]+|(?:self|[a-z0-9-]+-[0-9]+)\.[a-z0-9-]+)\}"
)
_REPLICA = re.compile(r"[-_.]([0-9]+)(?:\.[a-z0-9]+)?$")
_SIBLING = re.compile(r"([a-z0-9-]+)-([0-9]+)")
_DELIVERED = "/run/mistbow/"
_PATIENCE_S = 10.0
_PAUSE_S = 0.2


def fill(text: str, names: Sequence[str]) -> str:
    """Return a text with its fields replaced; raises ``LookupError`` for an unknown name.

    ``names``: the container's name in each of its networks: CONTAINER.NETWORK.

    >>> names = ["fog_edge_2.fog_front", "fog_edge_2.fog_internet"]
    >>> fill("edge-{replica} in the {of:north,south}: http://{self.internet}:8300", names)
    'edge-2 in the south: http://fog_edge_2.fog_internet:8300'
    >>> fill("http://{depot-1.internet}:8300", names), fill("https://{dashed:10.0.0.7}.pods", [])
    ('http://fog_depot_1.fog_internet:8300', 'https://10-0-0-7.pods')
    """
    return _FIELD.sub(lambda found: _value(found[1], names), text)


def _value(field: str, names: Sequence[str]) -> str:
    if field == "replica":
        return str(_replica(names))
    if field.startswith("dashed:"):
        return field.removeprefix("dashed:").replace(".", "-")
    if field.startswith("of:"):
        listed = field.removeprefix("of:").split(",")
        return listed[(_replica(names) - 1) % len(listed)]
    service, _, network = field.partition(".")
    return _host(service, network, names)


def _replica(names: Sequence[str]) -> int:
    for name in names:
        if found := _REPLICA.search(name.rpartition(".")[0]):
            return int(found[1])
    raise LookupError(f"the name of this container ends in no number: {', '.join(names)}")


def _host(service: str, network: str, names: Sequence[str]) -> str:
    for name in names:
        container, _, own_network = name.rpartition(".")
        if own_network != network and not own_network.endswith((f"_{network}", f"-{network}")):
            continue
        if service == "self":
            return name
        # Docker's names begin with the project: PROJECT_NETWORK, PROJECT_SERVICE_NUMBER.
        project = own_network[: -len(network) - 1]
        sibling = _SIBLING.fullmatch(service)
        if sibling and project and container.startswith(project):
            mark = container[len(project)]
            return f"{project}{mark}{sibling[1]}{mark}{sibling[2]}.{own_network}"
    raise LookupError(f"{{{service}.{network}}}: unknown to this container ({', '.join(names)})")


def _own_names() -> list[str]:
    """Return the host names of this container in its networks."""
    names = []
    for address in socket.gethostbyname_ex(socket.gethostname())[2]:
        # Not the file of hosts, where all addresses have the same name.
        command = ("getent", "-s", "dns", "hosts", address)
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
        names += found[1:2]
    return names


def _filled(texts: Mapping[str, str]) -> dict[str, str]:
    if not any(map(_FIELD.search, texts.values())):
        return dict(texts)
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        names = _own_names()
        try:
            return {key: fill(text, names) for key, text in texts.items()}
        except LookupError as error:
            if time.monotonic() > deadline:
                sys.exit(f"mistbow: {error}")
        time.sleep(_PAUSE_S)


def missing_files(variables: Mapping[str, str]) -> list[str]:
    """Return the missing files of the identities and tokens that variables name."""
    named = {name.strip() for text in variables.values() for name in text.split(",")}
    delivered = {name for name in named if name.startswith(_DELIVERED)}
    return sorted(name for name in delivered if not os.path.exists(name))


def _wait_for_files(variables: Mapping[str, str]) -> None:
    if missing := missing_files(variables):
        names = ", ".join(missing)
        print(f"mistbow: waiting for {names}; on the host: make identities", flush=True)
    while missing_files(variables):
        time.sleep(_PAUSE_S)


def main(arguments: Sequence[str]) -> None:
    """Replace this process by ``mistbow`` with filled arguments and variables."""
    variables = {key: text for key, text in os.environ.items() if key.startswith("MISTBOW_")}
    texts = {**variables, **{str(at): text for at, text in enumerate(arguments)}}
    filled = _filled(texts)
    _wait_for_files({key: filled[key] for key in variables})
    environment = {**os.environ, **{key: filled[key] for key in variables}}
    command = ["mistbow", *(filled[str(at)] for at in range(len(arguments)))]
    os.execvpe(command[0], command, environment)  # noqa: S606 - the arguments are the operator's


if __name__ == "__main__":
    main(sys.argv[1:])
