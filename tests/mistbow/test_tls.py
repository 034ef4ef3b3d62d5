"""Checks of TLS files, and their errors, before a service starts."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from typer.testing import CliRunner

from command_line.app import app
from mistbow.tls import BadTlsFileError, check_ca, check_certificate
from storage_agent.settings import AgentSettings
from tests.support.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_check_certificate_accepts_valid_files(authority: Authority) -> None:
    served = authority.serve("127.0.0.1")
    check_ca(authority.file)
    check_certificate(served.certificate, served.key)


def test_check_certificate_rejects_an_expired_certificate(authority: Authority) -> None:
    over = authority.serve("127.0.0.1", ends_in_days=-1)
    with pytest.raises(BadTlsFileError, match=r"server\.pem: certificate has expired"):
        check_certificate(over.certificate, over.key)


def test_check_certificate_rejects_a_key_of_another_certificate(authority: Authority) -> None:
    one, other = authority.serve("a"), authority.serve("b", name="other")
    with pytest.raises(BadTlsFileError, match=r"other\.key is not the key of the certificate in"):
        check_certificate(one.certificate, other.key)
    # A key of another kind.
    other.key.write_bytes(
        Ed25519PrivateKey.generate().private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
    )
    with pytest.raises(BadTlsFileError, match=r"other\.key is not the key of the certificate in"):
        check_certificate(one.certificate, other.key)
    other.key.write_text("nonsense")
    with pytest.raises(BadTlsFileError, match=r"other\.key contains no private key in PEM"):
        check_certificate(one.certificate, other.key)


@pytest.mark.parametrize("content", [b"", b"no certificate", b"\xff\x00"])
def test_check_ca_rejects_a_file_without_certificates(authority: Authority, content: bytes) -> None:
    served = authority.serve("127.0.0.1")
    served.certificate.write_bytes(content)
    with pytest.raises(BadTlsFileError, match=r"server\.pem contains no certificate in PEM"):
        check_certificate(served.certificate, served.key)
    with pytest.raises(BadTlsFileError, match="contains no certificate"):
        check_ca(served.certificate)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tls_cert": "absent.pem", "tls_key": "absent.key"}, "absent.pem cannot be read"),
        ({"tls_cert": "absent.pem"}, "--tls-cert is 'absent.pem': absent.pem cannot be read"),
        ({"tls_key": "absent.key"}, "MISTBOW_TLS_CERT and --tls-key go together"),
        ({"tls_ca": "absent.pem"}, "absent.pem cannot be read: No such file"),
        ({"ignite_tls_ca": "absent.pem"}, "absent.pem cannot be read: No such file"),
        ({"labels": "rack:7"}, "'rack:7' is not of the form key=value"),
        ({"tokens_file": "absent.json"}, "--tokens-file also needs MISTBOW_IDENTITY_FILE"),
        ({"tokens_file": "absent.json", "token": "t0ken-of-the-fog"}, "mistbow token add"),
    ],
)
def test_service_does_not_start_with_invalid_files(given: dict[str, str], message: str) -> None:
    flags = [part for name, text in given.items() for part in (f"--{name.replace('_', '-')}", text)]
    ended = CliRunner().invoke(app, ["agent", *flags], env={"TERMINAL_WIDTH": "300"})
    assert ended.exit_code == 2
    shown = " ".join(ended.output.replace("│", " ").split())
    assert message in shown
    assert "Traceback" not in shown
    assert "t0ken-of-the-fog" not in shown


def test_scheme_is_https_with_a_certificate(authority: Authority) -> None:
    served = authority.serve("127.0.0.1")
    assert AgentSettings().scheme == "http"
    settings = AgentSettings(tls_cert=served.certificate, tls_key=served.key)
    assert settings.scheme == "https"
