"""The secrets of a Helm release: an identity, and tokens of people and senders, by component."""

import base64
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from deploy import image
from fog_emulation.fog_trust import FogTrust, NodeTrust
from mistbow.errors import ConflictError

CHART = image.ROOT / "deploy" / "helm" / "mistbow"


def read_values(file: Path | None) -> dict[str, Any]:
    """Return the values of a release: those in a file, and the chart's own for all others."""
    values: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    given = {} if file is None else yaml.safe_load(file.read_text()) or {}
    return {**values, **given}


def secrets(
    values: Mapping[str, Any],
    release: str,
    namespace: str,
    trust: FogTrust,
    report: Callable[[str], None],
) -> Iterator[dict[str, Any]]:
    """Yield the manifest of the secret of each component of each site.

    The site of the enabler is the core: its services have their rights at all sites. Components
    with a revoked identity are left out, and ``report`` is called for each of them.
    """
    # As the chart's mistbow.name.
    name = release[:24].removesuffix("-")
    for component, kind, site in _components(values):
        reach = ("*",) if site == values["enabler"]["site"] else ()
        try:
            files = trust.files(NodeTrust(site, (kind,), reach, prefix=f"{name}-"))
        except ConflictError as error:  # its identity is revoked; the others must learn this
            report(f"{name}-{component}-{site} is left out: {error.message}")
            continue
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": f"{name}-{component}-{site}",
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
