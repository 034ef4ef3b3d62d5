"""The wire models of the fog have the fields of the snapshot that schedulers receive."""

from analytics.fog_models import FogBattery, FogLink, FogNode, FogPosition, FogPower, FogSource
from analytics_enabler.scheduling.model.snapshot import Battery, Link, Node, SourceQuality
from mistbow.fabric import Position, Power


def test_models_have_all_fields_of_the_snapshot() -> None:
    for model, struct in (
        (FogNode, Node),
        (FogLink, Link),
        (FogPower, Power),
        (FogBattery, Battery),
        (FogPosition, Position),
        (FogSource, SourceQuality),
    ):
        assert set(model.model_fields) == set(struct.__struct_fields__), model
