"""``python -m analytics_worker``: serve the worker with settings from the environment."""

from analytics_worker.main import main

main()
