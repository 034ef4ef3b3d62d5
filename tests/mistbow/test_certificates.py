"""Warnings before certificates expire."""

from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from mistbow.auth.authority import CertificateAuthority
from mistbow.certificates import CertificateWatch
from mistbow.clock import utc_now
from mistbow.settings import ServiceSettings
from tests.support.certificates import Authority
from tests.support.conditions import eventually
from tests.support.http_server import plain_service, served


def test_certificate_that_expires_soon_is_warned_of_until_it_is_replaced(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.serve("edge", ends_in_days=20)
    watch = CertificateWatch(files.certificate, (authority.file,))
    [text] = watch.warnings()
    day = utc_now() + timedelta(days=20)
    assert text.startswith(f"the certificate in {files.certificate} expires on {day:%Y-%m-%d}: ")
    assert watch.expires is not None
    assert watch.expires.date() == day.date()
    authority.serve("edge", ends_in_days=90)
    assert watch.warnings() == []


def test_invalid_file_is_a_warning_beside_the_expiry_of_the_former_one(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.serve("edge", ends_in_days=20)
    watch = CertificateWatch(files.certificate, (authority.file,))
    end, day = watch.expires, utc_now() + timedelta(days=20)
    files.certificate.write_text("nonsense")
    [text] = watch.warnings()
    assert text.startswith(
        f"the certificate in {files.certificate} is invalid, and the former one, which is in use, "
        f"expires on {day:%Y-%m-%d}: issue it again"
    )
    assert watch.expires == end
    authority.serve("edge", ends_in_days=90)
    assert watch.warnings() == []
    authority.file.unlink()
    [text] = watch.warnings()
    assert text.startswith(f"the authority in {authority.file} is invalid: replace it")


def test_file_that_was_never_valid_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "worker.pem"
    file.write_text("nonsense")
    watch = CertificateWatch(file)
    assert [text.partition(":")[0] for text in watch.warnings()] == [
        f"the certificate in {file} is invalid"
    ]
    assert watch.expires is None


def test_certificate_of_another_key_is_invalid_and_the_former_one_remains(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.serve("edge", ends_in_days=20)
    watch = CertificateWatch(files.certificate, key=files.key)
    end = watch.expires
    other = authority.serve("edge", ends_in_days=90, name="other")
    files.certificate.write_bytes(other.certificate.read_bytes())
    [text] = watch.warnings()
    assert f"{files.key} is not the key of the certificate in {files.certificate}" in text
    assert "and the former one, which is in use, expires on" in text
    assert watch.expires == end
    files.key.write_bytes(other.key.read_bytes())
    assert watch.warnings() == []


async def test_event_of_an_invalid_file_is_not_that_of_an_expiry(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.serve("edge", ends_in_days=90)
    watch = CertificateWatch(files.certificate, (authority.file,))
    with capture_logs() as logs:
        await watch.check()
        files.certificate.write_text("nonsense")
        await watch.check()
        await watch.check()
        authority.serve("edge", ends_in_days=20)
        await watch.check()
    assert [each["event"] for each in logs] == [
        "certificate_file_invalid",
        "certificate_expires_soon",
    ]


def test_authority_warns_by_its_last_end(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    authority.create(utc_now() + timedelta(days=365))

    def warnings(days: int) -> list[str]:
        at = utc_now() + timedelta(days=days)
        return CertificateWatch(None, (authority.bundle,), clock=lambda: at).warnings()

    assert (warnings(0), len(warnings(340)), len(warnings(370))) == ([], 1, 1)
    assert "expired on" in warnings(370)[0]
    # While an authority is replaced, the bundle contains the former one too.
    authority.rotate(utc_now() + timedelta(days=3650))
    assert warnings(370) == []


def test_service_reports_and_logs_a_certificate_that_expires_soon(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    files = Authority(tmp_path).serve("127.0.0.1", ends_in_days=20, name="soon")
    settings = ServiceSettings.model_validate(
        {"home": tmp_path, "tls_cert": files.certificate, "tls_key": files.key}
    )
    app = plain_service(settings)
    with served(app) as url:
        shown: list[str] = []

        def is_logged() -> bool:
            # Other tests may have set up logging, by which events go to other places.
            shown.append(capfd.readouterr().out)
            return "certificate_expires_soon" in "".join((*shown, caplog.text))

        eventually(is_logged, what="the service has logged it")
        answer = httpx.get(f"{url}/readyz")
        assert answer.status_code == 200
        assert "soon.pem expires on" in answer.json()["warnings"][0]
        name = f'mistbow_certificate_expiry_timestamp_seconds{{file="{files.certificate}"}}'
        [line] = [each for each in httpx.get(f"{url}/metrics").text.splitlines() if name in each]
        expected = (utc_now() + timedelta(days=20)).timestamp()
        assert float(line.split()[-1]) == pytest.approx(expected, abs=60)
