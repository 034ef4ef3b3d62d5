import asyncio
import errno
import logging
from pathlib import Path
from urllib.parse import quote

import pytest

from mistbow.errors import UnavailableError
from mistbow.telemetry import get_logger, set_up_logging


def fail(token: str) -> None:
    raise ValueError(f"a secret of {len(token)} letters")


@pytest.mark.usefixtures("own_handlers")
def test_log_shows_no_local_variables_in_tracebacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logging("test", tmp_path, "info")
    try:
        fail("".join(("s3", "cret", "-token")))
    except ValueError:
        get_logger("test").exception("unforeseen")
    written = (tmp_path / "logs" / "test.jsonl").read_text() + capsys.readouterr().err
    assert written.count("a secret of 12 letters") >= 2
    assert "s3cret" not in written


@pytest.mark.usefixtures("own_handlers")
def test_log_hides_secrets_in_every_encoding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret, other = 'of "the" fog/é', "mistbow_" + "x" * 43
    set_up_logging("test", tmp_path, "debug", [secret])
    log = get_logger("test")
    log.info(f"asked with {secret}", path=f"/streams/{other}", header=f"Bearer {other[8:]}")
    logging.getLogger("foreign").warning("GET /%s?t=%s", quote(secret), {"token": secret})
    try:
        raise ValueError(f"unknown: {secret} {other}")
    except ValueError:
        log.exception("unforeseen", given=[secret, {other: secret}])
    written = (tmp_path / "logs" / "test.jsonl").read_text() + capsys.readouterr().err
    assert written.count("[hidden]") >= 12
    for form in (secret, 'the\\" fog', quote(secret), "fog/", "x" * 43):
        assert form not in written


@pytest.mark.usefixtures("own_handlers")
def test_log_has_no_traceback_of_clients_disconnected_at_shutdown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logging("test", tmp_path, "info")
    log = logging.getLogger("uvicorn.error")
    for error in (asyncio.CancelledError("shutdown exceeded"), OSError("the disk is gone")):
        log.error("Exception in ASGI application", exc_info=error)
    written = capsys.readouterr().err
    assert written.count("Exception in ASGI application") == 1
    assert "the disk is gone" in written


SECRET = "the-token-of-the-fog"  # noqa: S105 - of no fog


@pytest.mark.usefixtures("own_handlers")
def test_log_that_cannot_be_written_is_reported_once_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "test.jsonl").symlink_to("/dev/full")
    set_up_logging("test", tmp_path, "info", [SECRET])
    logging.getLogger().handlers.pop()  # the terminal
    for number in range(5):
        logging.getLogger("foreign").warning("asked %s with %s", number, SECRET)
    [line] = capsys.readouterr().err.splitlines()
    assert str(tmp_path / "logs" / "test.jsonl") in line
    assert line.endswith("No space left on device; free space on this disk")


@pytest.mark.usefixtures("own_handlers")
def test_log_is_written_again_once_there_is_space(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = tmp_path / "logs" / "test.jsonl"
    full.parent.write_text("in the place of the folder")
    set_up_logging("test", tmp_path, "info")
    log = get_logger("test")
    for _ in range(2):
        log.info("lost")
    full.parent.unlink()
    full.parent.mkdir()
    log.info("written")
    assert '"event": "written"' in full.read_text()
    assert capsys.readouterr().err.count("cannot be written") == 1


@pytest.mark.usefixtures("own_handlers")
@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "/data/heads.new"),
        PermissionError(errno.EACCES, "Permission denied", "/data"),
        UnavailableError("Ignite is away", hint="Start it."),
    ],
)
def test_expected_error_is_logged_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    set_up_logging("test", tmp_path, "info")
    try:
        raise error
    except Exception as raised:
        get_logger("test").error("maintenance_failed", exc_info=raised)
        logging.getLogger("asyncio").exception("Task exception was never retrieved")
    written = (tmp_path / "logs" / "test.jsonl").read_text()
    terminal = capsys.readouterr().err
    assert len(written.splitlines()) == len(terminal.splitlines()) == 2
    for text in (written, terminal):
        assert "Traceback" not in text
        assert "exception" not in text.replace("Task exception", "")
        assert (getattr(error, "hint", None) or "; ") in text
