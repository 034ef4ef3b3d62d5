"""Submissions with an idempotency key."""

import pytest

from analytics_enabler.deployments.model import DeploymentSaved
from analytics_enabler.deployments.submissions import id_of_key
from mistbow.errors import ReusedKeyError
from tests.analytics_enabler.deployments.test_skewed_clocks import enabler
from tests.analytics_enabler.support import deployment

TEXT = "i = COMPUTE AVG(cpu, 5 s) EVERY 5 s"
OTHER = "i = COMPUTE MAX(cpu, 5 s) EVERY 5 s"


async def test_keys_whose_ids_were_equal_in_earlier_versions_have_a_deployment_each() -> None:
    deployments, _ = enabler(0)
    one = await deployments.submit(TEXT, None, "key 5979")
    other = await deployments.submit(OTHER, None, "key 77859")
    assert one.id[:10] == other.id[:10]
    assert await deployments.submit(TEXT, None, "key 5979") == one
    assert [each.queries for each in deployments.all()] == [TEXT, OTHER]


async def test_repeated_submission_finds_the_deployment_of_an_earlier_version() -> None:
    deployments, _ = enabler(0)
    stored = deployment(TEXT, deployment_id=id_of_key("key")[:10])
    await deployments.copy(stored.id, DeploymentSaved(stored))
    assert await deployments.submit(TEXT, None, "key") == stored
    with pytest.raises(ReusedKeyError, match=stored.id):
        await deployments.submit(OTHER, None, "key")
    assert deployments.all() == [stored]
