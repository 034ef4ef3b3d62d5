"""Certificates of the services of a fog, for mutual TLS.

The label ``mistbow.tls`` of a container is ``service``: it gets a certificate for its own names; or
``client``: it gets the authorities that it trusts.
"""

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

from cryptography import x509

from fog_emulation.fog_trust import LIFETIME, RENEWAL
from mistbow.auth.authority import CertificateAuthority
from mistbow.clock import utc_now
from mistbow.errors import ConflictError
from mistbow.files import write_file

LABEL = "mistbow.tls"

_AUTHORITY_LIFETIME = timedelta(days=3650)

_DELIVERED = "bundle.delivered"
"""The file with the authorities that the services received last, beside ``bundle.pem``."""


class FogCertificates:
    """Issues the certificates of one fog, by an authority in a folder of the operator.

    The authority is created when it is needed first.
    """

    def __init__(self, folder: Path) -> None:
        self._authority = CertificateAuthority(folder)

    @property
    def bundle(self) -> Path:
        """The file with the authorities of the fog; it exists once a certificate was issued."""
        return self._authority.bundle

    def check_delivered(self, names: Iterable[str]) -> None:
        """Raise ``ConflictError`` if a new certificate would be refused by the other services.

        ``names``: the services whose files are requested next. Their certificates would be of the
        present authority, which the other services have not received yet.
        """
        files = (self._authority.folder / f"{name}.pem" for name in names)
        found = [x509.load_pem_x509_certificate(f.read_bytes()) for f in files if f.exists()]
        if all(map(self._authority.has_signed, found)):
            return
        delivered = self._authority.folder / _DELIVERED
        if not delivered.exists() or not self._authority.is_in(delivered.read_bytes()):
            raise ConflictError(
                "the authority has been replaced, and the services have not received the new one "
                "yet, so they would refuse its certificates",
                hint="Repeat this command with --trust-only, and apply its output. When all "
                "services have the new bundle.pem, repeat it without --trust-only "
                '(docs/kubernetes.md, "Replace the authority").',
            )

    def record_delivered(self) -> None:
        """Record that the services get the present bundle."""
        write_file(self._authority.folder / _DELIVERED, self._bundle(), 0o644)

    def authorities(self, container: Any) -> dict[str, bytes]:
        """Return the authorities that a container trusts: name of the file -> content."""
        if LABEL not in container.labels:
            return {}
        return {"bundle.pem": self._bundle()}

    def files(self, container: Any) -> dict[str, bytes]:
        """Return the files of a container: name -> content; empty: the label is missing."""
        if container.labels.get(LABEL) == "service":
            return self.files_of(container.name, hosts_of(container))
        return self.authorities(container)

    def files_of(
        self, name: str, hosts: list[str], *, trust_only: bool = False
    ) -> dict[str, bytes]:
        """Return the files of a service that clients reach at some hosts: name -> content.

        ``trust_only``: a service with a certificate keeps this certificate.
        """
        bundle = self._bundle()
        certificate, key = self._issue(name, hosts, trust_only=trust_only)
        return {
            "bundle.pem": bundle,
            "service.pem": certificate.read_bytes(),
            "service.key": key.read_bytes(),
        }

    def _bundle(self) -> bytes:
        if not self.bundle.exists():
            self._authority.create(utc_now() + _AUTHORITY_LIFETIME)
        return self.bundle.read_bytes()

    def _issue(self, name: str, hosts: list[str], *, trust_only: bool = False) -> tuple[Path, Path]:
        folder = self._authority.folder
        files = folder / f"{name}.pem", folder / f"{name}.key"
        if all(each.exists() for each in files) and (
            trust_only or self._is_current(files[0], hosts)
        ):
            return files
        return self._authority.issue(name, hosts, utc_now() + LIFETIME)

    def _is_current(self, file: Path, hosts: list[str]) -> bool:
        """Return whether a certificate is for these hosts, signed by the present authority, and
        does not expire soon.
        """
        found = x509.load_pem_x509_certificate(file.read_bytes())
        if not self._authority.has_signed(found):
            return False
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        held = {str(each.value) for each in names}
        return held == set(hosts) and found.not_valid_after_utc > utc_now() + RENEWAL


def hosts_of(container: Any) -> list[str]:
    """Return the names at which others reach a container: in each network, and on loopback.

    Replicas share the name of their service, so this name is not included.
    """
    hosts = {"127.0.0.1", "localhost"}
    for network, settings in container.attrs["NetworkSettings"]["Networks"].items():
        aliases = (each for each in settings.get("Aliases") or () if "." in each)
        hosts |= {container.name, f"{container.name}.{network}", *aliases}
    return sorted(hosts)
