"""The analytics worker's process: its settings, its Spark, its API."""

import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio.to_thread
from fastapi import FastAPI
from prometheus_client import REGISTRY

from analytics_worker.api import add_routes
from analytics_worker.metrics import FragmentCollector
from analytics_worker.spark.library import SparkLibrary
from analytics_worker.worker import Worker
from mistbow.service import create_service, serve
from mistbow.settings import WorkerSettings


def create_app(settings: WorkerSettings) -> FastAPI:
    """Build the worker's application; Spark starts with it, in the background."""
    worker = Worker(settings, SparkLibrary.started)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        metrics = FragmentCollector(worker.list)
        REGISTRY.register(metrics)
        starting = threading.Thread(target=worker.start, name="start-spark", daemon=True)
        starting.start()
        yield
        await anyio.to_thread.run_sync(worker.stop)
        REGISTRY.unregister(metrics)

    app = create_service(
        "Mistbow analytics worker",
        settings,
        readiness=worker.readiness,
        lifespan=lifespan,
        description="Runs fragments of insight plans on Spark Structured Streaming.",
    )
    add_routes(app, worker)
    return app


def main(settings: WorkerSettings | None = None) -> None:
    """Serve until stopped."""
    settings = settings or WorkerSettings()
    # Spark's Python processes inherit the environment; the options that they get show in plans
    # and logs.
    if settings.secret is not None:
        os.environ["MISTBOW_TOKEN"] = settings.secret
    if settings.tls_ca is not None:
        os.environ["MISTBOW_TLS_CA"] = str(settings.tls_ca.absolute())
    serve(create_app(settings), "worker", settings.worker_port, settings)
