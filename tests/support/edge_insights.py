"""The memory of the specification's edge node, and the insights that its worker must run in it."""

LIMIT_MB = 1024

# Insights with different signatures share no fragment.
INSIGHTS = """
mean = COMPUTE AVG(metric.0, 10 SECONDS) BY entityID EVERY 1 SECONDS WITH SIGNATURE 'a';
median = COMPUTE MEDIAN(metric.1, 60 SECONDS) BY entityID EVERY 5 SECONDS WITH SIGNATURE 'b';
smooth = COMPUTE EWMA[0.5](metric.2) BY entityID EVERY 2 SECONDS WITH SIGNATURE 'c';
live = COMPUTE AVG(metric.3, 10 SECONDS) BY entityID WITH SIGNATURE 'd'
"""
METRICS = tuple(f"metric.{number}" for number in range(4))
FRAGMENTS = len(METRICS)
"""The number of fragments of the insights: one for each."""
