"""The client's operations on its own site and on another site."""

from typer.testing import CliRunner

from command_line.app import app as cli
from mistbow.client.operation_model import Restriction, SeriesFilter
from mistbow.errors import ConflictError, UnavailableError
from tests.support.conditions import eventually
from tests.support.sites import TOKEN, AgentSite, wait_until_reached


def test_operations_of_this_and_of_another_site(places: list[AgentSite]) -> None:
    a, b, _ = places
    with b.agent() as at_b, a.agent(b) as at_a:
        wait_until_reached(at_a, "b")
        wait_until_reached(at_b, "a")
        here, there = at_a.operations, at_a.at("b").operations
        changed = there.change_config(streams={"results/*": 5000}, when_full="refuse")
        assert changed == there.config() == at_b.operations.config()
        assert (changed.streams, changed.when_full) == ({"results/*": 5000}, "refuse")
        assert here.config().streams == {}
        cluster = here.cluster()
        assert (cluster.lost, cluster.refused, cluster.tolerates_a_failure) == (0, (), False)

        rules = (Restriction(match=SeriesFilter(group=("secret",)), stay_in=("nowhere",)),)
        assert here.restrict(rules) == here.restrictions()
        assert here.restrictions().declared == rules
        wanted = SeriesFilter(metric=("cpu",), labels={"rack": ("7",)})
        copy = here.request_copy("b", series=wanted)
        assert (copy.target, copy.filter, copy.manual) == ("b", wanted, True)
        assert copy.withheld == (rules[0].match,)
        assert [each.id for each in here.replication().copies] == [copy.id]

        def replica_names() -> list[str]:
            return [each.id for each in there.replication().replicas if each.source == "a"]

        eventually(lambda: replica_names() == [copy.id], what="the replica is there")
        [replica] = there.replication().replicas
        assert (replica.filter, replica.stored_in) == (wanted, f"replicas/a/raw/{copy.id}")
        eventually(
            lambda: (
                [each.id for each in here.replication().other_replicas.get("b", ())] == [copy.id]
            ),
            what="the fact is published",
        )
        here.withdraw_copy(copy.id)
        eventually(lambda: replica_names() == [], what="the replica is gone")


def test_repair_of_another_site_is_forwarded(places: list[AgentSite]) -> None:
    a, b, _ = places
    with a.agent() as at_a:
        command = ["storage", "repair", "raw", "--from", "c", "--site", "b"]
        command += ["--url", a.url, "--token", TOKEN]
        with b.agent(a) as at_b:
            wait_until_reached(at_a, "b")
            wait_until_reached(at_b, "a")
            found = CliRunner().invoke(cli, command).exception
            assert isinstance(found, ConflictError)
            assert found.message == "the stream raw has lost no rows"
        # The other site has answered: without it, there is no answer.
        found = CliRunner().invoke(cli, command).exception
        assert isinstance(found, UnavailableError)
        assert "site b" in found.message
