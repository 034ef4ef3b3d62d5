"""Logs (structured to a file, readable to the terminal) and their set-up."""

import logging
import logging.handlers
import sys
from pathlib import Path
from typing import Any

import structlog
from stamina.instrumentation import set_on_retry_hooks
from structlog.processors import ExceptionRenderer
from structlog.tracebacks import ExceptionDictTransformer

_ROTATE_BYTES = 16 * 2**20
_QUIET = ("httpx", "httpcore", "py4j", "uvicorn.access", "uvicorn.error")


def set_up_logging(service: str, home: Path, level: str) -> None:
    """Send this process's logs to ``home/logs/service.jsonl`` and, readable, to stderr."""
    folder = home / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    to_file = logging.handlers.RotatingFileHandler(
        folder / f"{service}.jsonl", maxBytes=_ROTATE_BYTES, backupCount=3
    )
    to_file.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                # No local variables: a token may be among them.
                ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    to_terminal = logging.StreamHandler(sys.stderr)
    to_terminal.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.dev.ConsoleRenderer(
                    colors=sys.stderr.isatty(),
                    pad_event_to=0,
                    exception_formatter=structlog.dev.plain_traceback,
                ),
            ],
        )
    )
    # What is away is told once by who waits for it, not at each try to reach it.
    set_on_retry_hooks([])
    root = logging.getLogger()
    root.handlers[:] = [to_file, to_terminal]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    # It writes a stack trace for each refused connection; the storage agent says what is away.
    logging.getLogger("pyignite").setLevel(logging.CRITICAL)
    structlog.configure(
        processors=[
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return a structured logger: ``log.info("event", key=value)``."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger
