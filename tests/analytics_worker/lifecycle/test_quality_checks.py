"""The figures of the checks of fragments that start and end."""

from types import SimpleNamespace
from typing import cast

from analytics.plan.fragments import Fragment
from analytics_worker.lifecycle.quality_checks import CheckUsage, QualityChecks
from mistbow.client.agent import AgentClient
from tests.analytics_worker.lifecycle.fragments import partial


class EmptyAgent:
    """An agent in memory whose streams have no rows."""

    def at(self, site: str) -> "EmptyAgent":
        del site
        return self

    def info(self, stream: str) -> SimpleNamespace:
        del stream
        return SimpleNamespace(head=0)


def test_usage_of_a_fragment_that_has_ended_is_removed() -> None:
    running: list[Fragment] = [partial("f")]
    checks = QualityChecks(cast("AgentClient", EmptyAgent()), lambda: running, "node")
    checks.set_shares(["f"], {"f": 1.0})
    checks.check()
    assert checks.usage("f").cpu_s > 0
    checks.set_shares(["f"], {"f": 0.0})
    checks.check()
    assert checks.usage("f").cpu_s > 0, "its checks may begin again"
    running.clear()
    checks.check()
    assert checks.usage("f") == CheckUsage()
