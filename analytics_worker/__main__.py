"""The command ``python -m analytics_worker``, which runs a worker like ``mistbow worker``."""

from analytics_worker.lifecycle.start_priority import START_PRIORITY

START_PRIORITY.lower()

from analytics_worker.main import main  # noqa: E402 - with the low priority
from analytics_worker.settings import WorkerSettings  # noqa: E402
from mistbow.flags import run_service  # noqa: E402

run_service(WorkerSettings, main)
