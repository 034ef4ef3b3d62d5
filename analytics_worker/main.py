"""The entry point of the worker's process, which serves the HTTP API and starts Spark."""

import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio.to_thread
from fastapi import FastAPI
from prometheus_client import REGISTRY, CollectorRegistry

from analytics_worker.api import add_routes
from analytics_worker.api_description import DESCRIPTION
from analytics_worker.heap import default_heap
from analytics_worker.lifecycle.capacity import node_memory
from analytics_worker.lifecycle.memory_budget import check_memory
from analytics_worker.lifecycle.start_priority import START_PRIORITY
from analytics_worker.lifecycle.worker import AnalyticsWorker, StartLibrary
from analytics_worker.metrics import FragmentCollector
from analytics_worker.settings import WorkerSettings
from analytics_worker.spark.library import SparkLibrary
from mistbow.client.credentials import IDENTITY_FILE, TLS_CA, TLS_CERT, TLS_KEY, TOKEN
from mistbow.service import create_service, serve


def start_spark(settings: WorkerSettings) -> SparkLibrary:
    """Start Spark with a heap that fits the memory of the node, unless a setting chooses it.

    Afterwards, the priority of the worker is normal.
    """
    heap = settings.driver_memory or default_heap(node_memory().limit_mb)
    try:
        return SparkLibrary.start(settings, heap)
    finally:
        START_PRIORITY.restore()


def create_app(
    settings: WorkerSettings,
    start_library: StartLibrary = start_spark,
    registry: CollectorRegistry = REGISTRY,
) -> FastAPI:
    """Return the worker's web application, which starts Spark in a background thread at startup.

    ``registry``: contains the metrics of the worker's fragments; two workers of one process need
    two registries.
    """
    worker = AnalyticsWorker(settings, start_library)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        metrics = FragmentCollector(worker.list)
        registry.register(metrics)
        starting = threading.Thread(target=worker.start, name="start-spark", daemon=True)
        starting.start()
        yield
        await anyio.to_thread.run_sync(worker.stop)
        registry.unregister(metrics)

    app = create_service(
        "Mistbow analytics worker",
        settings,
        readiness=worker.readiness,
        lifespan=lifespan,
        description="Runs fragments of insight plans on Spark Structured Streaming.",
        api=DESCRIPTION,
        leave=worker.leave if settings.drain_s else None,
    )
    add_routes(app, worker)
    return app


def main(settings: WorkerSettings | None = None) -> None:
    """Serve the HTTP API of a worker until the process is stopped.

    ``settings``: None creates the settings from the environment. Raises ``CapacityError`` if the
    node has too little memory.
    """
    START_PRIORITY.lower()
    settings = settings or WorkerSettings()
    check_memory(node_memory().limit_mb)
    # Spark's Python processes inherit the environment. Options would not do: plans and logs
    # show them.
    os.environ.pop(TOKEN, None)
    if settings.shared_token is not None:
        os.environ[TOKEN] = settings.shared_token
    if settings.identity_file is not None:
        os.environ[IDENTITY_FILE] = str(settings.identity_file.absolute())
    for variable, file in (
        (TLS_CA, settings.tls_ca),
        (TLS_CERT, settings.tls_cert),
        (TLS_KEY, settings.tls_key),
    ):
        if file is not None:
            os.environ[variable] = str(file.absolute())
    serve(create_app(settings), "worker", settings.worker_port, settings)
