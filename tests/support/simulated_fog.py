"""A fog of simulated agents that exchange heartbeats: real ``Peers``, and a network in memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from storage_agent.membership.heartbeat import HEARTBEAT, Heartbeat
from storage_agent.membership.peers import Peers

_MAX_ROUNDS = 500
_CHECKS = 4
"""The number of checks for silent peers in a round."""


@dataclass(frozen=True)
class Traffic:
    """The heartbeats and answers of all agents in some rounds.

    ``size``: the bytes of all messages. ``largest``: the bytes of the largest message.
    """

    messages: int
    size: int
    largest: int


class SimulatedFog:
    """Agents by site, which all have the first site as their seed."""

    def __init__(self, sites: Sequence[str]) -> None:
        self.sites = tuple(sites)
        self._instances = dict.fromkeys(sites, 0)
        self._cut: set[str] = set()
        self._now = 0
        self._agents = {site: self._agent(site) for site in sites}

    def peers_of(self, site: str) -> Peers:
        """Return the peers of the agent of a site."""
        return self._agents[site]

    def reached_by(self, site: str) -> set[str]:
        """Return the sites to which an agent has direct links, and its own site."""
        return {peer.site for peer in self._agents[site] if peer.address} | {site}

    def cut(self, site: str) -> None:
        """Cut all links of a site."""
        self._cut.add(site)

    def heal(self, site: str) -> None:
        """Restore all links of a site."""
        self._cut.discard(site)

    def restart(self, site: str) -> None:
        """Restart the agent of a site, which forgets its peers."""
        self._instances[site] += 1
        self._agents[site] = self._agent(site)

    def run(self, rounds: int) -> Traffic:
        """Let each agent send the heartbeats of some rounds."""
        sizes: list[int] = []
        for _ in range(rounds):
            for agent in self._agents.values():
                for address in agent.begin_round():
                    sizes += self._exchange(agent, address)
            for _ in range(_CHECKS):
                self._now += 1000 // _CHECKS
                for agent in self._agents.values():
                    agent.check_silence()
        return Traffic(len(sizes), sum(sizes), max(sizes, default=0))

    def run_until(self, condition: Callable[[], bool]) -> int:
        """Run rounds until a condition is true, and return their number."""
        for number in range(_MAX_ROUNDS):
            if condition():
                return number
            self.run(1)
        raise AssertionError(f"the condition was still false after {_MAX_ROUNDS} rounds")

    def _agent(self, site: str) -> Peers:
        own = Heartbeat(
            site=site,
            node=site,
            url=_url(site),
            instance=f"{site} {self._instances[site]}",
        )
        return Peers(own, [_url(self.sites[0])], lambda: self._now, lambda: self._now / 1000)

    def _exchange(self, sender: Peers, address: str) -> list[int]:
        """Send a heartbeat, and return the sizes of the message and of its answer."""
        heartbeat = sender.heartbeat_to(address)
        site = address.removeprefix("http://")
        sent = msgspec.json.encode(heartbeat)
        if {site, heartbeat.site} & self._cut:
            sender.record_failure(address, is_timeout=True)
            return [len(sent)]
        receiver = self._agents[site]
        receiver.receive_heartbeat(HEARTBEAT.decode(sent), is_authenticated=True)
        answer = msgspec.json.encode(receiver.answer_to(heartbeat))
        sender.record_answer(address, HEARTBEAT.decode(answer), 1.0)
        return [len(sent), len(answer)]


def _url(site: str) -> str:
    return f"http://{site}"
