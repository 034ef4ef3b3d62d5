"""The command ``python -m analytics_worker``, which runs a worker like ``mistbow worker``."""

from analytics_worker.main import main
from analytics_worker.settings import WorkerSettings
from mistbow.flags import run_service

run_service(WorkerSettings, main)
