"""Run only these benchmarks, for a shorter time: ``python -m benchmarks.insights --seconds 20``."""

import argparse

from rich.console import Console

from benchmarks.insights.run import COUNTS, SECONDS, run


def main() -> None:
    """Run the measurements that the arguments select, and print their table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=SECONDS, help="duration of each measurement")
    parser.add_argument(
        "--insights", type=int, nargs="*", default=COUNTS, help="numbers of insights"
    )
    parser.add_argument(
        "--plain",
        type=int,
        default=0,
        help="number of insights to run also as one Spark query each",
    )
    parser.add_argument(
        "--replayed", type=int, default=0, help="duration of the replay in seconds; 0: no replay"
    )
    given = parser.parse_args()
    report = run(given.seconds, given.insights, given.plain, given.replayed)
    Console(width=160).print(report.table())


if __name__ == "__main__":
    main()
