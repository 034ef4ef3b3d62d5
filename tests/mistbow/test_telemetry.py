import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from mistbow.telemetry import get_logger, set_up_logging


@pytest.fixture
def own_handlers() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)


def fail(token: str) -> None:
    raise ValueError(f"a secret of {len(token)} letters")


@pytest.mark.usefixtures("own_handlers")
def test_tracebacks_show_no_local_variables(
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
def test_no_line_has_a_secret_in_any_form(
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
def test_who_is_cut_off_at_the_end_leaves_no_stack_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logging("test", tmp_path, "info")
    log = logging.getLogger("uvicorn.error")
    for error in (asyncio.CancelledError("shutdown exceeded"), OSError("the disk is gone")):
        log.error("Exception in ASGI application", exc_info=error)
    written = capsys.readouterr().err
    assert written.count("Exception in ASGI application") == 1
    assert "the disk is gone" in written
