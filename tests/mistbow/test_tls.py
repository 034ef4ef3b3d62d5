"""What is wrong with the files of TLS is told in one line, before anything is served."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from mistbow.cli.app import app
from mistbow.settings import AgentSettings
from mistbow.tls import BadTlsFileError, check_ca, check_certificate
from tests.support.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_good_files_are_taken(authority: Authority) -> None:
    served = authority.serve("127.0.0.1")
    check_ca(authority.file)
    check_certificate(served.certificate, served.key)


def test_a_certificate_that_is_over_is_refused(authority: Authority) -> None:
    over = authority.serve("127.0.0.1", ends_in_days=-1)
    with pytest.raises(BadTlsFileError, match=r"server\.pem: certificate has expired"):
        check_certificate(over.certificate, over.key)


def test_a_key_of_another_certificate_is_refused(authority: Authority) -> None:
    one, other = authority.serve("a"), authority.serve("b", name="other")
    with pytest.raises(BadTlsFileError, match="key values mismatch"):
        check_certificate(one.certificate, other.key)


@pytest.mark.parametrize("content", [b"", b"no certificate", b"\xff\x00"])
def test_what_is_no_certificate_is_refused(authority: Authority, content: bytes) -> None:
    served = authority.serve("127.0.0.1")
    served.certificate.write_bytes(content)
    with pytest.raises(BadTlsFileError, match="do not serve"):
        check_certificate(served.certificate, served.key)
    with pytest.raises(BadTlsFileError, match="holds no certificate"):
        check_ca(served.certificate)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tls_cert": "absent.pem", "tls_key": "absent.key"}, "absent.pem cannot be read"),
        ({"tls_cert": "absent.pem"}, "MISTBOW_TLS_KEY go together"),
        ({"tls_key": "absent.key"}, "MISTBOW_TLS_KEY go together"),
        ({"tls_ca": "absent.pem"}, "absent.pem cannot be read: No such file"),
        ({"ignite_tls_ca": "absent.pem"}, "absent.pem cannot be read: No such file"),
        ({"labels": "rack:7"}, "'rack:7' is not of the form key=value"),
        ({"tokens_file": "absent.json"}, "MISTBOW_TOKEN or MISTBOW_TOKEN_FILE must be set too"),
        ({"tokens_file": "absent.json", "token": "t0ken-of-the-fog"}, "mistbow token add"),
    ],
)
def test_a_service_refuses_to_start_and_says_why(given: dict[str, str], said: str) -> None:
    flags = [part for name, text in given.items() for part in (f"--{name.replace('_', '-')}", text)]
    ended = CliRunner().invoke(app, ["agent", *flags], env={"TERMINAL_WIDTH": "300"})
    assert ended.exit_code == 2
    shown = " ".join(ended.output.replace("│", " ").split())
    assert said in shown
    assert "Traceback" not in shown
    assert "t0ken-of-the-fog" not in shown


def test_addresses_are_https_with_a_certificate(authority: Authority) -> None:
    served = authority.serve("127.0.0.1")
    assert AgentSettings().scheme == "http"
    settings = AgentSettings(tls_cert=served.certificate, tls_key=served.key)
    assert settings.scheme == "https"
