"""The secrets of a Helm release, by component: an identity, the tokens of people and senders, and
with TLS a certificate.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from deploy import image
from deploy.certificates import FogCertificates
from fog_emulation.fog_trust import FogTrust, NodeTrust
from mistbow.errors import ConflictError

CHART = image.ROOT / "deploy" / "helm" / "mistbow"


def read_values(file: Path | None) -> dict[str, Any]:
    """Return the values of a release: those in a file, and the chart's own for all others."""
    values: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    given = {} if file is None else yaml.safe_load(file.read_text()) or {}
    return {**values, **given, "tls": {**values["tls"], **given.get("tls", {})}}


def _hosts(service: str, kind: str, namespace: str) -> list[str]:
    """Return the names at which the pods of a service of Kubernetes are reached."""
    full = f"{service}.{namespace}.svc"
    names = [service, f"{service}.{namespace}", full, f"{full}.cluster.local"]
    if kind == "worker":
        # Each pod has a name of its own.
        names += [f"*.{full}", f"*.{full}.cluster.local"]
    return ["127.0.0.1", "localhost", *names]


def secrets(
    values: Mapping[str, Any],
    release: str,
    namespace: str,
    trust: FogTrust,
    report: Callable[[str], None],
) -> Iterator[dict[str, Any]]:
    """Yield the manifest of the secret of each component of each site.

    The site of the enabler is the core: its services have their rights at all sites. Components
    with a revoked identity are left out, and ``report`` is called for each of them. With TLS, each
    component has a certificate of the release's authority, unless the secrets exist.
    """
    # As the chart's mistbow.name.
    name = release[:24].removesuffix("-")
    tls = values["tls"]
    authority = FogCertificates(trust.folder / "ca")
    for component, kind, site in _components(values):
        whole = f"{name}-{component}-{site}"
        reach = ("*",) if site == values["enabler"]["site"] else ()
        try:
            files = trust.files(NodeTrust(site, (kind,), reach, prefix=f"{name}-"))
        except ConflictError as error:  # its identity is revoked; the others must learn this
            report(f"{whole} is left out: {error.message}")
            continue
        if tls["enabled"] and not tls["existingSecrets"]:
            hosts = _hosts(f"{name}-enabler" if kind == "enabler" else whole, kind, namespace)
            files |= authority.files_of(whole, hosts)
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": whole,
                "namespace": namespace,
                "labels": {
                    "app.kubernetes.io/name": "mistbow",
                    "app.kubernetes.io/instance": release,
                },
            },
            "type": "Opaque",
            "data": {each: base64.b64encode(files[each]).decode() for each in files},
        }


def _components(values: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (component, kind of the service, site) of each component of a release."""
    for site in values["sites"]:
        yield "storage", "agent", site["name"]
        yield "monitor", "monitor", site["name"]
        if ((site.get("worker") or {}).get("replicas") or 0) > 0:
            yield "worker", "worker", site["name"]
    yield "enabler", "enabler", values["enabler"]["site"]
