"""The secrets of a Helm release, by component: an identity, the tokens of people and senders, and
with TLS a certificate.
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from deploy import image
from deploy.certificates import FogCertificates
from fog_emulation.fog_trust import FogTrust, NodeTrust
from mistbow.errors import ConflictError, InvalidRequestError

CHART = image.ROOT / "deploy" / "helm" / "mistbow"


def read_values(file: Path | None) -> dict[str, Any]:
    """Return the values of a release: the values in a file, or else of the chart."""
    values: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    given = {} if file is None else _read(file)
    found = _merged(values, given)
    sites = found.get("sites")
    listed = sites if isinstance(sites, list) else []
    names = [each.get("name") if isinstance(each, dict) else None for each in listed]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InvalidRequestError(f"{file}: sites: write a list of sites, each with a name")
    at = found["enabler"].get("site")
    if at not in names:
        raise InvalidRequestError(f"{file}: enabler.site: there is no site {at}")
    return found


def _read(file: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(file.read_text()) or {}
    except OSError as error:
        raise InvalidRequestError(f"{file} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"{file} is not valid YAML: {error}") from error
    if not isinstance(found, dict):
        raise InvalidRequestError(f"{file} contains no values: write NAME: VALUE")
    return found


def _merged(values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return values that others replace, as Helm merges them: only fields are merged."""
    merged = {**values, **given}
    for name in values.keys() & given.keys():
        if isinstance(values[name], dict):
            if not isinstance(given[name] or {}, dict):
                raise InvalidRequestError(f"{name}: write fields, NAME: VALUE")
            merged[name] = _merged(values[name], given[name] or {})
    return merged


def release_prefix(release: str) -> str:
    """Return the beginning of the names of a release's objects, as the chart's ``mistbow.name``.

    >>> release_prefix("my.fog")
    'my-fog'
    """
    if not re.fullmatch(r"[a-z][a-z0-9.-]{0,52}", release):
        raise InvalidRequestError(
            f"the name of the release, {release}, must begin with a letter, and consist of at most "
            f"53 lower-case letters, digits, '-' and '.'"
        )
    return release.replace(".", "-")[:24].removesuffix("-")


def _hosts(service: str, kind: str, namespace: str) -> list[str]:
    """Return the names at which the pods of a service of Kubernetes are reached."""
    full = f"{service}.{namespace}.svc"
    names = [service, f"{service}.{namespace}", full, f"{full}.cluster.local"]
    if kind == "worker":
        # Each pod has a name of its own.
        names += [f"*.{full}", f"*.{full}.cluster.local"]
    return ["127.0.0.1", "localhost", *names]


def _exposed_hosts(values: Mapping[str, Any], component: str, site: str) -> list[str]:
    """Return the names and addresses at which clients outside of the cluster reach a component."""
    if component == "enabler":
        part = values["enabler"]
    elif component == "storage":
        [part] = [each.get("storage") or {} for each in values["sites"] if each["name"] == site]
    else:
        return []
    return [str(host) for host in (part.get("expose") or {}).get("hosts") or ()]


def secrets(
    values: Mapping[str, Any],
    release: str,
    namespace: str,
    trust: FogTrust,
    report: Callable[[str], None],
    *,
    trust_only: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield the manifest of the secret of each component of each site.

    The site of the enabler is the core: its services, except monitoring agents, have their rights
    at all sites. Components with a revoked identity are left out, and ``report`` is called for each
    of them. With TLS, each component has a certificate of the release's authority, unless the
    secrets exist.

    ``trust_only``: components keep their certificates. After a rotation of the authority, they then
    trust the new authority before it signs a certificate. Nodes get changed secrets at different
    times, so a certificate must not change together with the authorities: without ``trust_only``,
    raises ``ConflictError`` before the first secret if no earlier call has yielded secrets with the
    new authority.
    """
    name = release_prefix(release)
    has_authority = values["tls"]["enabled"] and not values["tls"]["existingSecrets"]
    authority = FogCertificates(trust.folder / "ca")
    if has_authority and not trust_only:
        authority.check_delivered(f"{name}-{part}-{at}" for part, _, at in _components(values))
    for component, kind, site in _components(values):
        whole = f"{name}-{component}-{site}"
        is_core = site == values["enabler"]["site"] and kind != "monitor"
        reach = ("*",) if is_core else ()
        try:
            files = trust.files(NodeTrust(site, (kind,), reach, prefix=f"{name}-"))
        except ConflictError as error:  # the other services must learn that it is revoked
            report(f"{whole} is left out: {error.text}")
            continue
        if has_authority:
            hosts = _hosts(f"{name}-enabler" if kind == "enabler" else whole, kind, namespace)
            hosts += _exposed_hosts(values, component, site)
            files |= authority.files_of(whole, hosts, trust_only=trust_only)
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
    if has_authority:
        authority.record_delivered()


def _components(values: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (component, kind of the service, site) of each component of a release."""
    for site in values["sites"]:
        yield "storage", "agent", site["name"]
        if values["monitor"]["enabled"]:
            yield "monitor", "monitor", site["name"]
        if ((site.get("worker") or {}).get("replicas") or 0) > 0:
            yield "worker", "worker", site["name"]
    yield "enabler", "enabler", values["enabler"]["site"]
