"""Run these benchmarks alone, and short: ``python -m benchmarks.insights --seconds 20``."""

import argparse

from rich.console import Console

from benchmarks.insights.run import COUNTS, SECONDS, run


def main() -> None:
    """Measure what the arguments name, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=SECONDS, help="of each measurement")
    parser.add_argument("--insights", type=int, nargs="*", default=COUNTS, help="how many")
    parser.add_argument("--plain", type=int, default=0, help="so many as a query each, too")
    parser.add_argument("--replayed", type=int, default=0, help="seconds of the replay, too")
    given = parser.parse_args()
    report = run(given.seconds, given.insights, given.plain, given.replayed)
    Console(width=160).print(report.table())


if __name__ == "__main__":
    main()
