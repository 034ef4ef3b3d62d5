"""Texts in the style of the published model, for each class of what the language accepts.

The metrics and attributes are those of ``city``. A text without a name is the insight ``q``.
"""

TEXTS: dict[str, tuple[str, ...]] = {
    "BY after an aggregate": (
        "SUM(energy, 10 SECONDS) BY city / COUNT(delay, 10 SECONDS) BY city EVERY 5 SECONDS",
        "COUNT(delay) BY stop + COUNT(energy) BY stop EVERY 5 SECONDS",
        "TOP_K[2](SUM(passengers, 10 SECONDS) BY stop) EVERY 5 SECONDS",
        "MIN(SUM(passengers, 10 SECONDS) BY stop) EVERY 5 SECONDS",
        "MAX(SUM(delay) BY line / COUNT(delay) BY line) EVERY 5 SECONDS",
        "100 * (SUM(passengers) BY city, stop / SUM(passengers) BY city) EVERY 5 SECONDS",
        "AVG(speed, 10 s) BY stop WHEN > AVG(delay, 10 s) BY stop EVERY 5 SECONDS",
        "MAX(delay) BY node_id - MIN(delay) BY node_id EVERY 5 SECONDS",
        "SUM(passengers) BY stop / SUM(passengers) EVERY 5 SECONDS",
        "ABS(MIN(delay) BY city - MAX(delay) BY city) * 2 EVERY 5 SECONDS",
    ),
    "bare names as texts": (
        "AVG(delay, 10 SECONDS) WHEN region == east EVERY 5 SECONDS",
        "COUNT(disease WHEN == malaria, 10 SECONDS) EVERY 5 SECONDS",
        "COUNT(disease WHEN == malaria, 10 SECONDS) BY region EVERY 5 SECONDS",
        "AVG(delay) BY node_id WHEN node_id IN (node_1, node_6) EVERY 5 SECONDS",
        "COUNT(disease WHEN IN (malaria, dengue)) BY city EVERY 5 SECONDS",
        "SUM(passengers WHEN city != limassol, 10 SECONDS) EVERY 5 SECONDS",
        "MAX(speed) BY stop WHEN stop NOT IN (s1, s2) EVERY 5 SECONDS",
        "COUNT(disease WHEN != flu AND region == west) EVERY 5 SECONDS",
        "MAX(delay) BY city WHEN limassol == city EVERY 5 SECONDS",
    ),
    "functions over values of ticks": (
        "FORECAST[3](ARITHMETIC_MEAN(delay WHEN > 0, 4 SECONDS), 12 s) BY stop EVERY 1 SECONDS",
        "CORRELATION(COUNT(delay), ARITHMETIC_MEAN(speed), 10 SECONDS) BY stop EVERY 1 SECONDS",
        "MEDIAN(AVG(delay, 2 SECONDS), 10 SECONDS) EVERY 2 SECONDS",
        "PERCENTILE[90](COUNT(delay), 10 SECONDS) BY region EVERY 1 SECONDS",
        "MAX(SUM(passengers) BY stop, 6 SECONDS) EVERY 2 SECONDS",
        "mean_delay = COMPUTE AVG(delay) BY stop EVERY 1 SECONDS;"
        " q = COMPUTE FORECAST[2](INSIGHT mean_delay, 10 SECONDS) BY stop EVERY 1 SECONDS",
        "COUNT(SUM(passengers) WHEN > 20, 8 SECONDS) EVERY 1 SECONDS",
        "CORRELATION(delay, speed, 5 SECONDS) EVERY 1 SECONDS",
        "MODE(COUNT(delay) BY stop, 9 SECONDS, 3 SECONDS) EVERY 3 SECONDS",
        "TOP_K[3](AVG(delay) - AVG(speed), 7 SECONDS) BY city EVERY 1 SECONDS",
    ),
    "windows and offsets": (
        "AVG(delay, 7300 MILLIS) EVERY 1100 MILLIS",
        "SUM(passengers, 10 SECONDS, 1500 MILLIS) EVERY 1 SECONDS",
        "MAX(speed, 59900 MILLIS) BY stop EVERY 7 SECONDS",
        "COUNT(delay, 1 MINUTES) EVERY 700 MILLIS",
        "SUM(passengers, 3 SECONDS) - SUM(passengers, 3 SECONDS, 2700 MS) EVERY 2 SECONDS",
        "MIN(delay, 2100 MILLIS, 300 MILLIS) BY region EVERY 5 SECONDS",
        "MEDIAN(delay, 4900 MILLIS)  BY city",
    ),
    "options": (
        "AVG(delay, 10 SECONDS) EVERY 5 SECONDS WITH SCHEDULER=latency AND SALIENCE 5",
        "AVG(delay) EVERY 5 SECONDS WITH ALLOW WHEN delay > 0 AND region != west",
        "SUM(cost) EVERY 5 SECONDS WITH ALLOW WHEN MAX(cost) > 6 AND COUNT(cost) >= 10",
        "OUTLIER_DETECTION(delay, 10 SECONDS) EVERY 5 SECONDS"
        " WITH K=4 AND ALGORITHM pmcod AND R=0.5",
        "cost BY city EVERY 5 SECONDS WITH ALLOW WHEN cost <= AVG(cost) + 20",
        "MAX(speed) BY stop EVERY 5 SECONDS WITH SALIENCE 5 AND ALLOW WHEN stop == s1 AND > 25",
        "COUNT(delay) EVERY 5 SECONDS WITH SIGNATURE 'city_board'",
    ),
    "COMPUTE of an attribute": (
        "stop WHEN delay > 10 EVERY 5 SECONDS",
        "node BY city WHEN speed > 25 EVERY 5 SECONDS",
        "city WHEN delay > AVG(delay, 10 SECONDS) EVERY 5 SECONDS",
        "stop BY region WHEN passengers > 8 AND region == east EVERY 5 SECONDS",
        "line WHEN delay > 5",
        "region WHEN cost != MAX(cost) EVERY 5 SECONDS",
        "late = COMPUTE AVG(delay) BY stop EVERY 5 SECONDS;"
        " q = COMPUTE stop WHEN INSIGHT late > 4 EVERY 5 SECONDS",
        "late = COMPUTE MAX(delay WHEN > 0) BY city EVERY 5 SECONDS;"
        " q = COMPUTE node BY city WHEN INSIGHT late > 12 EVERY 5 SECONDS",
        "city EVERY 5 SECONDS WITH ALLOW WHEN cost < MAX(cost)",
        "stop BY city EVERY 5 SECONDS WITH ALLOW WHEN cost < 8",
    ),
    "INSIGHT at a finer EVERY": (
        "slow = COMPUTE AVG(delay) EVERY 5 SECONDS; q = COMPUTE INSIGHT slow EVERY 1 SECONDS",
        "slow = COMPUTE MAX(delay, 10 SECONDS) BY stop EVERY 4 SECONDS;"
        " q = COMPUTE AVG(delay) BY stop - INSIGHT slow EVERY 1 SECONDS",
        "slow = COMPUTE SUM(passengers) BY city EVERY 6 SECONDS;"
        " q = COMPUTE SUM(passengers) BY city WHEN > INSIGHT slow / 8 EVERY 1 SECONDS",
        "slow = COMPUTE COUNT(delay) WHEN > 5 EVERY 3 SECONDS;"
        " q = COMPUTE 2 * INSIGHT slow EVERY 2 SECONDS",
        "slow = COMPUTE delay BY stop EVERY 5 SECONDS; q = COMPUTE INSIGHT slow EVERY 500 MS",
        "slow = COMPUTE AVG(delay, 4 s, 1500 ms) EVERY 4 s; q = COMPUTE INSIGHT slow EVERY 1 s",
    ),
    "sets": (
        'FUNCTION legal(city) { ("CY", "GR") };'
        " q = COMPUTE COUNT(request WHEN country IN legal(city), 10 SECONDS) EVERY 5 SECONDS",
        'FUNCTION legal(city) { ("CY", "GR") };'
        " q = COMPUTE COUNT(request WHEN country NOT IN legal(city)) BY city EVERY 5 SECONDS",
        "FUNCTION busy(stop) { (s1, s2) };"
        " q = COMPUTE MAX(passengers) BY stop WHEN stop IN busy(stop) EVERY 5 SECONDS",
        "FUNCTION lines(x) { (1, 3) };"
        " q = COMPUTE AVG(delay WHEN line IN lines(x), 10 SECONDS) EVERY 5 SECONDS",
        "FUNCTION severe(d) { (malaria, dengue) };"
        " q = COMPUTE COUNT(disease WHEN IN severe(d)) BY region EVERY 5 SECONDS",
        "FUNCTION few(x) { (1, 2, 3) };"
        " q = COMPUTE MAX(passengers) BY city WHEN NOT IN few(x) EVERY 5 SECONDS",
    ),
    "defaults": (
        "EWMA(delay) BY stop EVERY 5 SECONDS",
        "PEWMA(speed) EVERY 5 SECONDS",
        "TOP-K(delay, 10 SECONDS) EVERY 5 SECONDS",
        "TOP_K(AVG(delay) BY stop) EVERY 5 SECONDS",
        "delay WHEN > EWMA(delay)",
        "AVG(speed) - EWMA(speed) BY region EVERY 2 SECONDS",
    ),
    "EVERY by number of points": (
        "AVG(delay) EVERY 5 POINTS",
        "SUM(passengers) BY stop EVERY 4 POINTS",
        "MAX(speed) - MIN(speed) BY city EVERY 6 POINTS",
        "COUNT(delay WHEN > 0) BY region EVERY 5 POINTS",
        "AVG(delay) BY stop WHEN > 3 EVERY 3 POINTS",
        "AVG(delay) - AVG(delay, 10 SECONDS) BY stop EVERY 4 POINTS",
        "MEDIAN(speed) BY line EVERY 7 POINTS",
        "TOP_K[2](passengers) EVERY 10 POINTS",
        "MODE(passengers) BY node WHEN region == east EVERY 6 POINTS",
    ),
    "GEOHASH of a position": (
        "GEOHASH[6](position) BY node EVERY 5 SECONDS",
        "GEOHASH[5](position) BY line",
        "GEOHASH[4](position WHEN region == east) BY stop EVERY 5 SECONDS",
        'AVG(speed, 10 s) BY node WHEN GEOHASH[2](position) == "sw" EVERY 5 SECONDS',
        'here: STREAM FROM position(metric="speed", latitude="lat", longitude="lon");'
        " q = COMPUTE GEOHASH[6](here) BY node EVERY 5 SECONDS",
        'here: STREAM FROM position(metric="speed", latitude="lat", longitude="lon");'
        " q = COMPUTE GEOHASH[3](here) BY city",
        'here: STREAM FROM position(metric="speed", latitude="lat", longitude="lon");'
        ' q = COMPUTE MAX(delay) BY stop WHEN GEOHASH[2](here) != "s0" EVERY 5 SECONDS',
    ),
    "operators over texts": (
        "COUNT(request WHEN ipToCountry(ip) IN legalCountries(movie), 10 s) EVERY 5 SECONDS",
        "request WHEN ipToCountry(ip) IN legalCountries(movie)",
        'COUNT(request WHEN ipToCountry(ip) == "CY") BY region EVERY 5 SECONDS',
        'COUNT(request) BY city WHEN ipToCountry(ip) IN ("CY", "GR") EVERY 5 SECONDS',
        "COUNT(request WHEN country IN legalCountries(movie)) EVERY 5 SECONDS",
        "COUNT(request WHEN ipToCountry(ip) NOT IN legalCountries(movie)) BY city EVERY 5 s",
        'COUNT(request) EVERY 5 SECONDS WITH ALLOW WHEN ipToCountry(ip) != "FR"',
        "COUNT(request WHEN NOT ipToCountry(ip) IN legalCountries(movie) AND region == east)"
        " EVERY 5 SECONDS",
    ),
    "COMPUTE of a stream": (
        'easterly: STREAM FROM storage(region="east");'
        " q = COMPUTE easterly WHEN delay > 5 EVERY 5 SECONDS",
        'easterly: STREAM FROM storage(region="east");'
        " q = COMPUTE easterly BY city WHEN speed > 22 EVERY 5 SECONDS",
        'easterly: STREAM FROM storage(region="east");'
        " q = COMPUTE easterly WHEN delay > AVG(delay, 10 SECONDS) EVERY 5 SECONDS",
        'easterly: STREAM FROM storage(region="east");'
        " q = COMPUTE easterly EVERY 5 SECONDS WITH ALLOW WHEN cost < 8",
        'easterly: STREAM FROM storage(region="east");'
        " late = COMPUTE AVG(delay) BY stop EVERY 5 SECONDS;"
        " q = COMPUTE easterly BY stop WHEN INSIGHT late > 4 EVERY 5 SECONDS",
        'easterly: STREAM FROM storage(region="east"); q = COMPUTE easterly WHEN delay > 5',
        'easterly: STREAM FROM storage(region="east");'
        " q = COMPUTE easterly EVERY 5 SECONDS WITH ALLOW WHEN cost < AVG(cost)",
    ),
    "ALLOW of attributes and aggregates": (
        "SUM(cost) EVERY 5 SECONDS WITH ALLOW WHEN dc_cost == MIN(cost)",
        "COUNT(delay) BY city EVERY 5 SECONDS WITH ALLOW WHEN dc_cost <= AVG(cost)",
        "MAX(cost) EVERY 5 SECONDS WITH ALLOW WHEN dc_cost < AVG(cost) AND region == east",
        "AVG(passengers) BY stop EVERY 5 SECONDS WITH ALLOW WHEN MIN(cost) == dc_cost",
        "MIN(cost) BY node EVERY 2 SECONDS WITH ALLOW WHEN dc_cost != MAX(cost) AND SALIENCE 3",
        "SUM(cost, 10 s) BY line EVERY 5 s WITH ALLOW WHEN dc_cost == MIN(cost) OR dc_cost > 6",
        "COUNT(request) BY city EVERY 5 SECONDS"
        " WITH ALLOW WHEN COUNT(request) > 9 OR country IN legalCountries('Zorba')",
        "COUNT(request) BY city EVERY 5 SECONDS"
        " WITH ALLOW WHEN COUNT(request) > 9 OR country NOT IN legalCountries('Zorba')",
        "COUNT(request) BY ip EVERY 5 SECONDS"
        " WITH ALLOW WHEN COUNT(request) > 9 OR country == ipToCountry(ip)",
        "MAX(cost) BY region EVERY 5 SECONDS"
        " WITH ALLOW WHEN COUNT(cost) > 99 OR dc_cost IN acceptedCosts(region)",
        "MAX(cost) BY region EVERY 5 SECONDS"
        " WITH ALLOW WHEN COUNT(cost) > 99 OR dc_cost NOT IN acceptedCosts(region)",
    ),
}
