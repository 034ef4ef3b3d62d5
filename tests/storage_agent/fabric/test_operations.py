"""How sites keep their data, asked and changed by the client, of another site too."""

from mistbow.client.operation_model import Rule, SeriesFilter
from tests.support.sites import Place, knows
from tests.support.waiting import eventually


def test_operations_here_and_there(places: list[Place]) -> None:
    a, b, _ = places
    with b.agent() as at_b, a.agent(b) as at_a:
        knows(at_a, "b")
        knows(at_b, "a")
        here, there = at_a.operations, at_a.at("b").operations
        changed = there.change_config(streams={"results/*": 5000}, when_full="refuse")
        assert changed == there.config() == at_b.operations.config()
        assert (changed.streams, changed.when_full) == ({"results/*": 5000}, "refuse")
        assert here.config().streams == {}
        cluster = here.cluster()
        assert (cluster.lost, cluster.refused, cluster.tolerates_a_failure) == (0, (), False)

        rules = (Rule(SeriesFilter(group=("secret",)), ("nowhere",)),)
        assert here.restrict(rules) == here.restrictions()
        assert here.restrictions().declared == rules
        wanted = SeriesFilter(metric=("cpu",), labels={"rack": ("7",)})
        copy = here.ask_copy("b", wanted=wanted)
        assert (copy.target, copy.filter, copy.manual) == ("b", wanted, True)
        assert copy.withheld == (rules[0].match,)
        assert [each.id for each in here.replication().copies] == [copy.id]

        def held() -> list[str]:
            return [each.id for each in there.replication().replicas if each.of == "a"]

        eventually(lambda: held() == [copy.id], what="the replica is there")
        [replica] = there.replication().replicas
        assert (replica.filter, replica.kept_in) == (wanted, f"replicas/a/raw/{copy.id}")
        eventually(
            lambda: [each.id for each in here.replication().elsewhere.get("b", ())] == [copy.id],
            what="it is told of",
        )
        here.withdraw_copy(copy.id)
        eventually(lambda: held() == [], what="the replica is gone")
