"""The expiry of the certificates of a service, and of the authorities that it trusts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from prometheus_client import Gauge

from mistbow.clock import utc_now
from mistbow.expiry import expiry_text
from mistbow.files import FileStamp, file_stamp
from mistbow.telemetry import get_logger
from mistbow.tls import BadTlsFileError, check_pair

log = get_logger(__name__)

_EXPIRY = Gauge(
    "mistbow_certificate_expiry_timestamp_seconds",
    "The time at which the certificates in a file expire, in seconds since 1970.",
    ["file"],
)


class CertificateWatch:
    """Observes when the certificates in files expire; reads a file again when it has changed.

    While a new file is invalid, the service uses the former one, whose expiry counts here too.
    ``certificate``: the certificate of the service; None: it has none. ``authorities``: the files
    of trusted authorities. ``key``: the file with the key of the certificate; None: not observed.
    """

    def __init__(
        self,
        certificate: Path | None,
        authorities: tuple[Path, ...] = (),
        key: Path | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._certificate = certificate
        self._authorities = authorities
        self._key = key
        self._clock = clock
        self._ends: dict[Path, _End] = {}
        self._logged: set[str] = set()

    @property
    def expires(self) -> datetime | None:
        """When the certificate of the service expires; None: no certificate was valid so far."""
        found = self._certificate
        return None if found is None else self._end(found, is_chain=True).time

    def warnings(self) -> list[str]:
        """Return which files are invalid, which certificates expire soon, and what to do."""
        return [text for _, text in self._warnings()]

    async def check(self) -> None:
        """Update the metric, and log each new warning."""
        present = list(self._warnings())
        for is_valid, text in present:
            if text in self._logged:
                continue
            if is_valid:
                log.warning("certificate_expires_soon", problem=text)
            else:
                log.warning("certificate_file_invalid", problem=text)
        self._logged = {text for _, text in present}

    def _warnings(self) -> Iterator[tuple[bool, str]]:
        """Yield warnings: whether the file is valid, and the text."""
        if self._certificate is not None:
            end = self._end(self._certificate, is_chain=True)
            yield from self._warnings_of(
                f"the certificate in {self._certificate}", end,
                "issue it again (mistbow ca issue), and copy it to the service",
            )  # fmt: skip
        for file in self._authorities:
            end = self._end(file, is_chain=False)
            yield from self._warnings_of(
                f"the authority in {file}", end,
                "replace it (mistbow ca rotate), and copy bundle.pem to all services",
            )  # fmt: skip

    def _warnings_of(self, what: str, end: "_End", action: str) -> Iterator[tuple[bool, str]]:
        expiry = None if end.time is None else expiry_text(end.time, self._clock())
        if end.fault:
            # A valid former file remains in use.
            former = "" if expiry is None else f", and the former one, which is in use, {expiry}"
            yield False, f"{what} {end.fault}{former}: {action}"
        elif expiry is not None:
            yield True, f"{what} {expiry}: {action}"

    def _end(self, file: Path, *, is_chain: bool) -> "_End":
        """Return the expiry of a chain (its earliest one), or of authorities (the latest one)."""
        key = self._key if is_chain else None
        stamps = (file_stamp(file), (0, 0, 0) if key is None else file_stamp(key))
        before = self._ends.get(file)
        if before is None or before.stamps != stamps:
            ends = _ends(file)
            fault = "" if ends else "is invalid"
            if ends and key is not None:
                fault = _fault_of_pair(file, key)
            former = None if before is None else before.time
            time = former if fault else (min if is_chain else max)(ends)
            before = self._ends[file] = _End(stamps, time, fault)
            if time is not None:
                _EXPIRY.labels(str(file)).set(time.timestamp())
        return before


@dataclass(frozen=True, slots=True)
class _End:
    """The expiry of the certificates in a file.

    ``stamps``: the stamps of the file and of the key. ``time``: the expiry of the last valid
    content; None: the file had no valid content. ``fault``: why the content is not used; empty: the
    content is used.
    """

    stamps: tuple[FileStamp, FileStamp]
    time: datetime | None
    fault: str


@lru_cache(maxsize=64)
def certificate_watch(
    certificate: Path | None, key: Path | None, authorities: tuple[Path, ...]
) -> CertificateWatch:
    """Return the watch of files; all callers of a process share it."""
    return CertificateWatch(certificate, authorities, key)


def _fault_of_pair(certificate: Path, key: Path) -> str:
    try:
        check_pair(certificate, key)
    except BadTlsFileError as error:
        return f"is invalid ({error})"
    return ""


def _ends(file: Path) -> list[datetime]:
    try:
        found = x509.load_pem_x509_certificates(file.read_bytes())
    except (OSError, ValueError):
        # The former files remain in use (log event tls_files_rejected).
        return []
    return [each.not_valid_after_utc for each in found]
