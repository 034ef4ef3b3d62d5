"""Structured logs: JSON lines to a file, text to the terminal."""

import asyncio
import contextlib
import json
import logging
import logging.handlers
import re
import sys
from collections.abc import Callable, Iterable, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import structlog
from stamina.instrumentation import set_on_retry_hooks
from structlog.processors import ExceptionRenderer
from structlog.tracebacks import ExceptionDictTransformer

from mistbow.errors import MistbowError
from mistbow.os_faults import fault_of

_FILE_BYTES = 16 * 2**20
_EARLIER_FILES = 3
MAX_LOG_BYTES = (1 + _EARLIER_FILES) * _FILE_BYTES
"""The size (bytes) of all log files of a service."""

_QUIET = ("httpx", "httpcore", "py4j", "uvicorn.access", "uvicorn.error")


def describe_expected_errors(_: Any, __: str, event: MutableMapping[str, Any]) -> Any:
    """Replace the traceback of an expected error in an event by its description, in one line.

    Expected are faults of the machine, such as a full disk, and errors with a status of their own.
    """
    given = event.get("exc_info")
    error = given[1] if isinstance(given, tuple) else given
    if given is True:
        error = sys.exc_info()[1]
    described = None
    if isinstance(error, MistbowError) and error.status != MistbowError.status:
        described = "; ".join(filter(None, (error.message, error.hint)))
    elif fault := fault_of(error if isinstance(error, BaseException) else None):
        described = str(fault)
    if described is not None:
        del event["exc_info"]
        event["error"] = described
    return event


_SHARED: tuple[Any, ...] = (
    describe_expected_errors,
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)
"""The processors that are applied to each event, for the file and for the terminal."""

# Tokens of token files, and of headers.
_TOKEN_LIKE = re.compile(r"mistbow_[A-Za-z0-9_-]{20,}|(?<=bearer )[^\s\"',]+", re.IGNORECASE)
_HIDDEN = "[hidden]"
_MIN_SECRET_LENGTH = 6
"""The minimum length of a masked secret; a shorter secret would match parts of words."""


class LogFile(logging.handlers.RotatingFileHandler):
    """A rotated log file; a failure to write is reported once on stderr, in one line.

    The handler of the library would print a traceback, and the arguments of each event unmasked.
    """

    def __init__(self, path: Path, max_bytes: int, backups: int) -> None:
        # The file is opened at the first event: a full disk must not prevent the start.
        super().__init__(path, maxBytes=max_bytes, backupCount=backups, delay=True)
        self._path = path
        self._failed = self._reported = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write an event."""
        self._failed = False
        super().emit(record)
        self._reported = self._failed

    def close(self) -> None:
        """Close the file; lines that a full disk did not accept are lost."""
        with contextlib.suppress(OSError):
            super().close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802
        """Report the first failure since the last success."""
        self._failed = True
        if not self._reported:
            error = sys.exc_info()[1]
            problem = fault_of(error) or type(error).__name__
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(f"mistbow: the log {self._path} cannot be written: {problem}\n")


class _TerminalLog(logging.StreamHandler[Any]):
    """A log on a terminal, or in a file to which it is redirected; errors cannot be reported."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Drop the event."""


def make_log_folder(folder: Path) -> None:
    """Create the folder of logs; on a full disk, the first event reports the failure."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)


def set_up_logging(service: str, home: Path, level: str, secrets: Iterable[str] = ()) -> None:
    """Send this process's logs to ``home/logs/SERVICE.jsonl`` as JSON, and to stderr as text.

    ``secrets``, and texts that look like tokens, are masked in every line.
    """
    mask = scrubber(secrets)

    def scrub(_: Any, __: str, line: str) -> str:
        return mask(line)

    make_log_folder(home / "logs")
    to_file = LogFile(home / "logs" / f"{service}.jsonl", _FILE_BYTES, _EARLIER_FILES)
    # Without local variables: a token may be among them.
    errors = ExceptionRenderer(ExceptionDictTransformer(show_locals=False))
    to_file.setFormatter(_formatter(errors, structlog.processors.JSONRenderer(), scrub))
    to_terminal = _TerminalLog(sys.stderr)
    to_terminal.setFormatter(
        _formatter(
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(),
                pad_event_to=0,
                exception_formatter=structlog.dev.plain_traceback,
            ),
            scrub,
        )
    )
    # Callers log an outage once; stamina would log each retry.
    set_on_retry_hooks([])
    root = logging.getLogger()
    root.handlers[:] = [to_file, to_terminal]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_is_no_cancellation)
    # It logs a traceback for each refused connection; the storage agent logs the outage.
    logging.getLogger("pyignite").setLevel(logging.CRITICAL)
    structlog.configure(
        processors=[
            *_SHARED,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    # At shutdown, uvicorn logs a traceback for each client that follows a stream.
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, asyncio.CancelledError)


def _formatter(*last: Any) -> logging.Formatter:
    first = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=_SHARED, processors=[first, *last])


def scrubber(secrets: Iterable[str]) -> Callable[[str], str]:
    """Return a function that masks ``secrets``, and texts that look like tokens, in a line."""
    long = [text for text in secrets if len(text) >= _MIN_SECRET_LENGTH]
    forms = {form for text in long for form in (text, json.dumps(text)[1:-1], quote(text))}
    exact = [re.escape(form) for form in sorted(forms, key=len, reverse=True)]
    pattern = re.compile("|".join([*exact, _TOKEN_LIKE.pattern]), re.IGNORECASE)

    return lambda line: pattern.sub(_HIDDEN, line)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return a structured logger; log events with ``log.info("event", key=value)``."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger
