"""The pools of Spark's FAIR scheduler: one for each salience, and one for corrections.

Of pools that have no task at work, those with a minimum share go first, and else the one whose
name is the first; of others, the one with the fewest tasks for its weight.
"""

from pathlib import Path
from xml.etree import ElementTree

from pyspark.sql import SparkSession

from mistbow.plan.fragments import MOST_SALIENCE

CORRECTIONS = "corrections"
_POOL = "spark.scheduler.pool"


def pool_of(salience: int) -> str:
    """Return the name of the pool for queries of a salience; the highest is the first by name.

    >>> pool_of(5) < pool_of(0) < CORRECTIONS
    True
    """
    return f"{MOST_SALIENCE - salience:03}-salience-{salience}"


def write_pools(folder: Path) -> Path:
    """Write what Spark is to know of the pools into a file there."""
    root = ElementTree.Element("allocations")
    for salience in range(MOST_SALIENCE + 1):
        _add(root, pool_of(salience), weight=1 + salience, share=min(salience, 1))
    _add(root, CORRECTIONS, weight=1, share=0)
    path = folder / "pools.xml"
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
    return path


def use_pool(session: SparkSession, pool: str) -> None:
    """Have what the calling thread starts run in a pool."""
    session.sparkContext.setLocalProperty(_POOL, pool)


def _add(root: ElementTree.Element, name: str, weight: int, share: int) -> None:
    pool = ElementTree.SubElement(root, "pool", name=name)
    ElementTree.SubElement(pool, "schedulingMode").text = "FIFO"
    ElementTree.SubElement(pool, "weight").text = str(weight)
    ElementTree.SubElement(pool, "minShare").text = str(share)
