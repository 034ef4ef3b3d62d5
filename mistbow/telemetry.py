"""Logs (structured to a file, readable to the terminal) and their set-up."""

import asyncio
import json
import logging
import logging.handlers
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import structlog
from stamina.instrumentation import set_on_retry_hooks
from structlog.processors import ExceptionRenderer
from structlog.tracebacks import ExceptionDictTransformer

_ROTATE_BYTES = 16 * 2**20
_QUIET = ("httpx", "httpcore", "py4j", "uvicorn.access", "uvicorn.error")

_SHARED: tuple[Any, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)
"""What happens to each event, wherever it goes."""

# What looks like a token, wherever it comes from: tokens of files, and headers.
_TOKEN_LIKE = re.compile(r"mistbow_[A-Za-z0-9_-]{20,}|(?<=bearer )[^\s\"',]+", re.IGNORECASE)
_HIDDEN = "[hidden]"
_LEAST_HIDDEN = 6
"""A shorter secret would be found in many a word."""


def set_up_logging(service: str, home: Path, level: str, secrets: Iterable[str] = ()) -> None:
    """Send this process's logs to ``home/logs/service.jsonl`` and, readable, to stderr.

    No line has any of ``secrets``, nor what looks like a token: callers put them in odd places.
    """
    scrub = _scrubber(secrets)
    folder = home / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    to_file = logging.handlers.RotatingFileHandler(
        folder / f"{service}.jsonl", maxBytes=_ROTATE_BYTES, backupCount=3
    )
    # No local variables: a token may be among them.
    errors = ExceptionRenderer(ExceptionDictTransformer(show_locals=False))
    to_file.setFormatter(_formatter(errors, structlog.processors.JSONRenderer(), scrub))
    to_terminal = logging.StreamHandler(sys.stderr)
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
    # What is away is told once by who waits for it, not at each try to reach it.
    set_on_retry_hooks([])
    root = logging.getLogger()
    root.handlers[:] = [to_file, to_terminal]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    # It writes a stack trace for each refused connection; the storage agent says what is away.
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


def _is_news(record: logging.LogRecord) -> bool:
    # Who still follows a stream when a service ends is cut off: uvicorn says so in a line, and
    # then writes a stack trace for each.
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, asyncio.CancelledError)


def _formatter(*last: Any) -> logging.Formatter:
    first = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=_SHARED, processors=[first, *last])


def _scrubber(secrets: Iterable[str]) -> Callable[..., str]:
    """Return the last step of a log's line, which takes secrets out of it."""
    long = [text for text in secrets if len(text) >= _LEAST_HIDDEN]
    forms = {form for text in long for form in (text, json.dumps(text)[1:-1], quote(text))}
    exact = [re.escape(form) for form in sorted(forms, key=len, reverse=True)]
    pattern = re.compile("|".join([*exact, _TOKEN_LIKE.pattern]), re.IGNORECASE)

    def scrub(_: Any, __: str, line: str) -> str:
        return pattern.sub(_HIDDEN, line)

    return scrub


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return a structured logger: ``log.info("event", key=value)``."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger
