"""The pools of Spark's FAIR scheduler: one for each salience, and one for corrections.

Spark first starts a task of a pool that is below its minimum share. If all pools have their minimum
share, Spark selects the pool with the fewest tasks relative to the pool's weight; of equal pools,
Spark selects the first by name.
"""

from pathlib import Path
from xml.etree import ElementTree

from pyspark.sql import SparkSession

from analytics.plan.fragments import MAX_SALIENCE

CORRECTIONS = "corrections"
_POOL = "spark.scheduler.pool"


def pool_of(salience: int) -> str:
    """Return the name of the pool for a salience.

    In alphabetical order of the names, the highest salience comes first.

    >>> pool_of(5) < pool_of(0) < CORRECTIONS
    True
    """
    return f"{MAX_SALIENCE - salience:03}-salience-{salience}"


def write_pools(folder: Path) -> Path:
    """Write the definitions of the pools to a file in ``folder``; return the path of the file."""
    root = ElementTree.Element("allocations")
    for salience in range(MAX_SALIENCE + 1):
        _add(root, pool_of(salience), weight=1 + salience, share=min(salience, 1))
    _add(root, CORRECTIONS, weight=1, share=0)
    path = folder / "pools.xml"
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
    return path


def use_pool(session: SparkSession, pool: str) -> None:
    """Assign the queries that the calling thread starts from now on to a pool."""
    session.sparkContext.setLocalProperty(_POOL, pool)


def _add(root: ElementTree.Element, name: str, weight: int, share: int) -> None:
    pool = ElementTree.SubElement(root, "pool", name=name)
    ElementTree.SubElement(pool, "schedulingMode").text = "FIFO"
    ElementTree.SubElement(pool, "weight").text = str(weight)
    ElementTree.SubElement(pool, "minShare").text = str(share)
