"""Every example query of the specification parses, once its placeholders are replaced."""

import pytest

from grammar import format_script, parse

EXAMPLES = """\
energy_10min = COMPUTE AVG(energy_consumption, 10 MINUTES)
energy_plus_100_10min = COMPUTE 0.002 * SUM(energy_consumption, 10 MINUTES)
energy_per_cpu_15min = COMPUTE AVG(energy_consumption, 15 MINUTES) / AVG(cpu_util, 10 MINUTES)
ram_util_5min = COMPUTE AVG(ram_util, 5 MINUTES) BY fog_node_id
energy_10min_over_100 = COMPUTE AVG(energy_consumption, 10 MINUTES) WHEN > 100
abnormal_temperature = COMPUTE AVG(temperature, 10 MINUTES) WHEN >
                        RUNNING_MEAN(temperature) +
                        3*RUNNING_STD(temperature)
energy_10min = COMPUTE AVG(energy_consumption, 10 MINUTES) EVERY 5 SECONDS
energy_plus_100_10min = COMPUTE 0.002 * SUM(energy_consumption, 10 MINUTES)
                        EVERY 5 SECONDS
energy_per_cpu_15min = COMPUTE AVG(energy_consumption, 15 MINUTES) / AVG(cpu_util, 10 MINUTES)
                        EVERY 15 SECONDS
ram_util_5min = COMPUTE AVG(ram_util, 5 MINUTES) BY fog_node_id EVERY 10
                SECONDS
abnormal_temperature = COMPUTE MAX(temperature, 10 MINUTES) WHEN >70 WITH SALIENCE 5
cpu_util_20min = COMPUTE AVG(cpu_util, 20 MINUTES) EVERY 5 SECONDS
ram_util_20_sample = COMPUTE AVG(ram_util, 10 MINUTES) WITH SAMPLE 0.2
network_io_bytes_sample = COMPUTE AVG(network_io_bytes, 10 MINUTES)
                        WITH MAX_ERROR 0.05 AND CONFIDENCE 0.95
adaptive_sampling = COMPUTE MAX(cpu_pct, 1 MINUTES) WITH ADAM AND CONFIDENCE 0.95
disk_outliers = COMPUTE OUTLIER_DETECTION(disk_io_bytes, 10 MINUTES) EVERY 5 SECONDS
              WITH ALGORITHM pmcod AND K=50 AND R=0.5
running_cpu_util = COMPUTE RUNNING_AVG(cpu_util) WITH SCHEDULER=latency
node_network_io_10mins = COMPUTE SUM(network_io_bytes, 10 MINUTES)
                        WHEN node_id == "fog-1"
                        WITH PLACEMENT_ON region_name="region_1" 5 DEDICATED
avg_metric_10mins = COMPUTE AVG(metric, 10 MINUTES)
energy_plus_100_10min = COMPUTE AVG(energy_consumption, 10 MINUTES) + 100 EVERY 5 SECONDS
top = COMPUTE TOP-K(metric, 10 MINUTES)
from_ebnf: stream from storage(a="b", c=-5, d=+2.5)
ebnf = compute windowed("metric" from (a, b), 10 ms);
"""


@pytest.mark.parametrize("text", EXAMPLES.replace("\n ", " ").splitlines())
def test_an_example_of_the_specification(text: str) -> None:
    script = parse(text)
    assert parse(format_script(script)) == script
