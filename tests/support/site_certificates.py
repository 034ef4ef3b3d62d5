"""Certificates for the processes of a site, from an authority of ``mistbow ca``."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from typer.testing import CliRunner

from command_line.app import app
from mistbow.auth.authority import CertificateAuthority
from mistbow.tls import TlsFiles

HOST = "127.0.0.1"


class SiteCertificates:
    """The folder of an operator with the authority, and the copies that the processes have.

    ``names``: of the processes with a certificate each.
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.authority = CertificateAuthority(folder / "fog-ca")
        self.bundle = folder / "processes" / "bundle.pem"
        self._names = names
        self.bundle.parent.mkdir(parents=True)
        self.run("init")
        self.copy_bundle()
        self.renew()

    def files(self, name: str) -> TlsFiles:
        """Return the files of a process."""
        folder = self.bundle.parent
        return TlsFiles(self.bundle, folder / f"{name}.pem", folder / f"{name}.key")

    def settings(self, name: str) -> dict[str, object]:
        """Return the settings of a process for mutual TLS."""
        files = self.files(name)
        return {
            "tls_ca": files.ca,
            "tls_client_ca": files.ca,
            "tls_cert": files.certificate,
            "tls_key": files.key,
        }

    def run(self, *arguments: str) -> None:
        """Run a command of ``mistbow ca``."""
        done = CliRunner().invoke(app, ["ca", *arguments, "--folder", str(self.authority.folder)])
        assert done.exit_code == 0, done.output + str(done.exception)

    def copy_bundle(self) -> None:
        """Copy the trusted authorities to the processes."""
        shutil.copy(self.authority.bundle, self.bundle)

    def renew(self) -> None:
        """Issue all certificates again, and copy them to the processes."""
        for name in self._names:
            self.run("issue", name, "--host", HOST)
            # The key first: while the two do not match, services keep the former ones.
            for suffix in (".key", ".pem"):
                shutil.copy(self.authority.folder / f"{name}{suffix}", self.bundle.parent)
