"""Files of certificates, signed by an authority that the test creates."""

import datetime
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificates


@dataclass(frozen=True)
class Served:
    """The PEM files of a server: its certificate with the chain, and its key."""

    certificate: Path
    key: Path

    def key_store(self, password: str) -> Path:
        """Write the certificate and the key to a PKCS12 key store; return its path."""
        chain = load_pem_x509_certificates(self.certificate.read_bytes())
        key = load_pem_private_key(self.key.read_bytes(), None)
        assert isinstance(key, EllipticCurvePrivateKey)
        data = serialize_key_and_certificates(
            b"ignite", key, chain[0], chain[1:], BestAvailableEncryption(password.encode())
        )
        path = self.certificate.with_suffix(".p12")
        path.write_bytes(data)
        return path


class Authority:
    """An authority that signs certificates; ``file``: the authority's own certificate."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA()
        self.file = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(self.file)

    def serve(self, *names: str, name: str = "server", ends_in_days: int = 30) -> Served:
        """Write a new certificate and its key to files; return the files.

        ``names``: the hosts; ``name``: the base name of the files; ``ends_in_days``: the days until
        the certificate expires (negative: the certificate has already expired).
        """
        today = datetime.datetime.now(datetime.UTC)
        issued = self._authority.issue_cert(
            *names,
            not_before=today - datetime.timedelta(days=60),
            not_after=today + datetime.timedelta(days=ends_in_days),
        )
        served = Served(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        served.certificate.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(served.key)
        return served
