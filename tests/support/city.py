"""The city of ``docker-compose.yml`` as an emulated fog."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from deploy.image import name_of_role
from fog_emulation.services import ComposeService
from tests.support.emulated_fogs import IMAGE, ROOT, EmulatedFog, FogFile, running_fog

INSIGHTS = ROOT / "examples" / "city.insights"
EDGES = ("edge-1", "edge-2")
CITY = FogFile(
    path=ROOT / "docker-compose.yml",
    sites={
        "cloud": ("storage-cloud-1", "lan-cloud"),
        "region-1": ("region-1", "internet"),
        **{edge: (edge, "street") for edge in EDGES},
    },
    enabler=("enabler-1", "lan-cloud"),
    workers=frozenset({"worker-cloud", *EDGES}),
    replicas={"region": 1, "edge": len(EDGES)},
    core="cloud",
)
"""The city with fewer replicas: two cores compute four sites without lag."""

ROLES = {
    "storage-cloud": "storage", "region": "storage", "worker-cloud": "worker", "enabler": "enabler"
}  # fmt: skip
"""Service -> the role whose image suffices for it."""


@contextmanager
def running_city(name: str, *, with_role_images: bool = False) -> Iterator[EmulatedFog]:
    """Run the city within the ``with``; yields the city.

    ``with_role_images``: whether the services of one role run in the image of this role.
    """

    def adapt(services: dict[str, ComposeService]) -> None:
        for service, role in ROLES.items() if with_role_images else ():
            services[service] = replace(services[service], image=name_of_role(IMAGE, role))

    with running_fog(CITY, name, adapt) as city:
        yield city
