"""Builders and Hypothesis strategies of fogs and jobs."""

import itertools
from collections.abc import Mapping

from hypothesis import strategies as st

from analytics_enabler.scheduling.model.jobs import Assignment, Job, Placement, Task, TaskStream
from analytics_enabler.scheduling.model.snapshot import Fog, Link, Node


def node(name: str, site: str = "", *, cores: float = 4, memory_mb: float = 4096, **more) -> Node:
    """Return a node, by default at a site of the same name and with its whole capacity free."""
    free = {"cores_free": cores, "memory_free_mb": memory_mb}
    return Node(name=name, site=site or name, cores=cores, memory_mb=memory_mb, **{**free, **more})


def link(one: str, other: str, latency_ms: float) -> tuple[Link, Link]:
    """Return a link in both directions; the latency is in ms."""
    return (
        Link(source=one, target=other, latency_ms=latency_ms),
        Link(source=other, target=one, latency_ms=latency_ms),
    )


def fog(*nodes: Node, links: Mapping[tuple[str, str], float] | None = None) -> Fog:
    """Return a fog of nodes and links.

    ``links``: names of two sites -> latency (ms) in both directions.
    """
    both = [link(*ends, latency_ms) for ends, latency_ms in (links or {}).items()]
    return Fog(nodes, tuple(itertools.chain.from_iterable(both)))


def task(name: str, pinned: str | None = None, **more) -> Task:
    """Return a task; its default demand is one core and 512 MB."""
    return Task(id=name, pinned=pinned, **{"cores": 1.0, "memory_mb": 512.0, **more})


def job(name: str, *tasks: Task, streams: str = "", sink: str = "cloud", **more) -> Job:
    """Return a job of tasks.

    ``streams``: the streams between tasks as a text; ``a>b c>b`` means that a and c send data to b.
    """
    ends = [pair.split(">") for pair in streams.split()]
    edges = tuple(TaskStream(source=a, target=b, bytes_per_s=1000) for a, b in ends)
    return Job(id=name, tasks=tasks, streams=edges, sink=sink, **{"scheduler": "fair", **more})


def placed(**nodes: str) -> Placement:
    """Return a placement from keywords of the form ``JOB_TASK="node"``."""
    return Placement(
        tuple(
            Assignment(job=key.split("_")[0], task=key.split("_")[1], node=at)
            for key, at in nodes.items()
        )
    )


def city() -> Fog:
    """Return a fog: a cloud site of two nodes, and two edge sites with different latencies."""
    return fog(
        node("cloud1", "cloud", cores=8, memory_mb=8192),
        node("cloud2", "cloud", cores=8, memory_mb=8192),
        node("edge1", cores=2, memory_mb=2048, labels={"rack": "7"}, region="north"),
        node("edge2", cores=2, memory_mb=2048, region="south"),
        links={("edge1", "cloud"): 20, ("edge2", "cloud"): 50, ("edge1", "edge2"): 10},
    )


def over_sites(name: str = "q", *sites: str, **more) -> Job:
    """Return the job of an insight over sites: a partial at each site, and a merge."""
    sites = sites or ("edge1", "edge2")
    partials = [task(f"at-{site}", site) for site in sites]
    streams = " ".join(f"{partial.id}>merge" for partial in partials)
    return job(name, *partials, task("merge"), streams=streams, **more)


SITES = ("a", "b", "c")


@st.composite
def fogs(draw: st.DrawFn) -> Fog:
    """Draw up to five nodes at three sites, with some links between them."""
    nodes = []
    for number in range(draw(st.integers(0, 5))):
        cores = draw(st.sampled_from([1.0, 2.0, 4.0]))
        memory = draw(st.sampled_from([512.0, 1024.0, 4096.0]))
        nodes.append(
            node(
                f"n{number}",
                draw(st.sampled_from(SITES)),
                cores=cores,
                cores_free=cores * draw(st.sampled_from([0, 0.5, 1])),
                memory_mb=memory,
                memory_free_mb=memory * draw(st.sampled_from([0.3, 1])),
                labels=draw(st.sampled_from([{}, {"rack": "7"}])),
                clock_mhz=draw(st.sampled_from([0, 1000])),
            )
        )
    ends = [*itertools.permutations(SITES, 2), *((at.name, at.site) for at in nodes)]
    latencies = draw(st.dictionaries(st.sampled_from(ends), st.integers(0, 60), max_size=8))
    links = [Link(source=a, target=b, latency_ms=ms) for (a, b), ms in latencies.items()]
    return Fog(tuple(nodes), tuple(links))


@st.composite
def jobs(draw: st.DrawFn, name: str) -> Job:
    """Draw a job of up to four tasks in a random acyclic graph."""
    tasks = [
        task(
            f"t{number}",
            draw(st.sampled_from([None, *SITES])),
            cores=draw(st.sampled_from([0.0, 0.5, 1.0, 2.0])),
            memory_mb=draw(st.sampled_from([0.0, 256.0, 1024.0])),
            labels=draw(st.sampled_from([{}, {}, {}, {"rack": "7"}])),
            clock_mhz=draw(st.sampled_from([0, 0, 0, 1000])),
            remotely_readable=draw(st.booleans()),
        )
        for number in range(draw(st.integers(1, 4)))
    ]
    pairs = list(itertools.combinations([one.id for one in tasks], 2))
    ends = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    streams = " ".join(f"{source}>{target}" for source, target in ends)
    return job(name, *tasks, streams=streams, sink=draw(st.sampled_from([*SITES, "far"])))


@st.composite
def several_jobs(draw: st.DrawFn, max_jobs: int = 3) -> tuple[Job, ...]:
    """Draw up to ``max_jobs`` jobs."""
    return tuple(draw(jobs(f"j{number}")) for number in range(draw(st.integers(0, max_jobs))))
