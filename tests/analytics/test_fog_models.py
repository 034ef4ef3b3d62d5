"""The wire models of the fog have the fields of the snapshot that schedulers receive."""

from analytics.fog_models import FogLink, FogNode
from analytics_enabler.scheduling.model.snapshot import Link, Node


def test_models_have_all_fields_of_the_snapshot() -> None:
    assert set(FogNode.model_fields) == set(Node.__struct_fields__)
    assert set(FogLink.model_fields) == set(Link.__struct_fields__)
