"""The expiry of the certificates of a service, and of the authorities that it trusts."""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from prometheus_client import Gauge

from mistbow.clock import utc_now
from mistbow.expiry import expiry_text
from mistbow.files import FileStamp, file_stamp
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_EXPIRY = Gauge(
    "mistbow_certificate_expiry_timestamp_seconds",
    "The time at which the certificates in a file expire, in seconds since 1970.",
    ["file"],
)


class CertificateWatch:
    """Observes when the certificates in files expire; reads a file again when it has changed.

    ``certificate``: the certificate of the service; None: it has none. ``authorities``: the files
    of trusted authorities.
    """

    def __init__(
        self,
        certificate: Path | None,
        authorities: tuple[Path, ...] = (),
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._certificate = certificate
        self._authorities = authorities
        self._clock = clock
        self._ends: dict[Path, tuple[FileStamp, datetime | None]] = {}
        self._logged: set[str] = set()

    @property
    def expires(self) -> datetime | None:
        """When the certificate of the service expires; None: it has none, or it is invalid."""
        return None if self._certificate is None else self._end(self._certificate, is_chain=True)

    def warnings(self) -> list[str]:
        """Return which certificates expire soon, and what to do."""
        found = []
        if self._certificate is not None and (end := self.expires) is not None:
            found += self._warning(
                f"the certificate in {self._certificate}", end,
                "issue it again (mistbow ca issue), and copy it to the service",
            )  # fmt: skip
        for file in self._authorities:
            if (end := self._end(file, is_chain=False)) is not None:
                found += self._warning(
                    f"the authority in {file}", end,
                    "replace it (mistbow ca rotate), and copy bundle.pem to all services",
                )  # fmt: skip
        return found

    async def check(self) -> None:
        """Update the metric, and log each new warning."""
        present = self.warnings()
        for text in present:
            if text not in self._logged:
                log.warning("certificate_expires_soon", problem=text)
        self._logged = set(present)

    def _warning(self, what: str, end: datetime, action: str) -> list[str]:
        expiry = expiry_text(end, self._clock())
        return [] if expiry is None else [f"{what} {expiry}: {action}"]

    def _end(self, file: Path, *, is_chain: bool) -> datetime | None:
        """Return when a chain ends, with its first certificate to end, or authorities, with the
        last; None: the file has no certificate.
        """
        stamp = file_stamp(file)
        if file not in self._ends or self._ends[file][0] != stamp:
            ends = _ends(file)
            end = (min if is_chain else max)(ends) if ends else None
            self._ends[file] = stamp, end
            if end is not None:
                _EXPIRY.labels(file.name).set(end.timestamp())
        return self._ends[file][1]


@lru_cache(maxsize=64)
def certificate_watch(certificate: Path | None, authorities: tuple[Path, ...]) -> CertificateWatch:
    """Return the watch of files; all callers of a process share it."""
    return CertificateWatch(certificate, authorities)


def _ends(file: Path) -> list[datetime]:
    try:
        found = x509.load_pem_x509_certificates(file.read_bytes())
    except (OSError, ValueError):
        # The former files remain in use (log event tls_files_rejected).
        return []
    return [each.not_valid_after_utc for each in found]
