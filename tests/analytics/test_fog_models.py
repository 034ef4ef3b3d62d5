"""The wire models of the fog have the fields of the snapshot that schedulers receive."""

from analytics.fog_models import FogBattery, FogLink, FogNode, FogPosition, FogPower, FogSource
from analytics_enabler.scheduling.model.snapshot import Battery, Link, Node, SourceQuality
from mistbow.fabric import Position, Power

OWN = {FogLink: {"load_mbps"}}
"""The fields that only the wire model has."""


def test_models_have_all_fields_of_the_snapshot() -> None:
    for model, struct in (
        (FogNode, Node),
        (FogLink, Link),
        (FogPower, Power),
        (FogBattery, Battery),
        (FogPosition, Position),
        (FogSource, SourceQuality),
    ):
        shared = set(model.model_fields) - OWN.get(model, set())
        assert shared == set(struct.__struct_fields__), model
