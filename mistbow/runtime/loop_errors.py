"""Logs the errors that no task of an event loop raises, such as errors in a library's callback."""

import asyncio
import traceback
from typing import Any

from mistbow.telemetry import get_logger

log = get_logger(__name__)


def log_loop_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Log each such error of ``loop`` as the event ``callback_failed``, in one line.

    The handler of the library would log a traceback of many lines.
    """
    loop.set_exception_handler(_log)


def _log(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error: BaseException | None = context.get("exception")
    fields: dict[str, object] = {"problem": str(context.get("message", ""))}
    if error is not None:
        fields["error"] = repr(error)
        if frames := traceback.extract_tb(error.__traceback__):
            fields["at"] = f"{frames[-1].filename}:{frames[-1].lineno}"
    log.error("callback_failed", **fields)
