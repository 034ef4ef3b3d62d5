"""The settings of the analytics worker."""

import socket

from pydantic import Field

from mistbow.settings import Labels, ServiceSettings, ServiceUrl


class WorkerSettings(ServiceSettings):
    """The settings of an analytics worker."""

    own_name_settings = ("node",)
    own_url_settings = ("worker_url",)

    worker_port: int = Field(
        default=8100, ge=0, le=65535, description="Port of the analytics worker."
    )
    agent_url: ServiceUrl = Field(
        default="http://127.0.0.1:8300", description="Storage agent of this site."
    )
    worker_url: ServiceUrl = Field(
        default="http://127.0.0.1:8100", description="This worker's address as others reach it."
    )
    node: str = Field(default_factory=socket.gethostname, description="This node's name.")
    region: str = Field(default="", description="Region of this node.")
    labels: Labels = Field(default="", description="Labels of this node: key=value,key=value.")
    spark_master: str = Field(default="local[*]", description="Spark master.")
    driver_memory: str = Field(default="768m", description="Heap of Spark's driver.")
