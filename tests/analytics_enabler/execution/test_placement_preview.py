from analytics_enabler.execution.placement_preview import PlacementPreview
from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.sandbox.guard import Outcome
from tests.analytics_enabler.scheduling.build import fog, job, node, placed, task


def test_preview_has_the_reasons_of_moves() -> None:
    here = fog(node("a"), node("b"), links={("hub", "a"): 200, ("hub", "b"): 5})
    moved = job("j", task("t", "hub", remotely_readable=True), sink="hub")
    outcome = Outcome(Decision(placed(j_t="b")), {})
    preview = PlacementPreview(outcome, {"j": moved}, here, {"j": {"t": "a"}})
    assert preview.reasons == {("j", "t"): "the critical path falls from 400 to 10 ms"}


def test_preview_has_the_hot_spot_that_a_task_leaves() -> None:
    here = fog(node("a"), node("b"), links={("hub", "a"): 5, ("hub", "b"): 5})
    moved = job("j", task("t", "hub", remotely_readable=True), sink="hub")
    outcome = Outcome(Decision(placed(j_t="b")), {})
    why = {("j", "t"): "the worker a is a hot spot"}
    preview = PlacementPreview(outcome, {"j": moved}, here, {"j": {"t": "a"}}, why)
    assert preview.reasons == why
