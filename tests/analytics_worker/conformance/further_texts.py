"""Further texts in the style of the published model.

Their author wrote them from the specification and the issue, before reading the implementation, and
then corrected the syntax of some by the answers of the check and by the reference.
"""

FURTHER_TEXTS = {
    "EVERY by number of points": (
        "mean_delay = COMPUTE ARITHMETIC_MEAN(delay) EVERY 10 POINTS",
        "delay_per_stop = COMPUTE AVG(delay) BY stop EVERY 5 POINTS",
        "delay_range = COMPUTE (MAX(delay) - MIN(delay)) / COUNT(delay) EVERY 20 POINTS",
        "delay_spread = COMPUTE MAX(delay) - MIN(delay) WHEN > 10 EVERY 8 POINTS",
        "p95_of_40 = COMPUTE PERCENTILE[95](energy) EVERY 12 POINTS WITH SALIENCE 2",
        "late_buses = COMPUTE SUM(delay WHEN > 0) BY line EVERY 10 POINTS",
        "cost_plus_tax = COMPUTE 1.19 * SUM(cost) BY region, stop EVERY 6 POINTS",
    ),
    "GEOHASH of a position": (
        "where_now = COMPUTE GEOHASH[6](position) BY entityID EVERY 5 SECONDS",
        "where_now_coarse = COMPUTE GEOHASH[4](position) BY entityID EVERY 2 SECONDS",
        "east_only = COMPUTE GEOHASH[5](position WHEN region == east) BY entityID EVERY 5 SECONDS",
        "AVG(delay, 5 SECONDS) BY entityID WHEN GEOHASH[3](position) == 'swp' EVERY 5 SECONDS",
        "place: STREAM FROM position(metric='speed', latitude='lat', longitude='lon');"
        " fast = COMPUTE GEOHASH[5](place) BY entityID EVERY 5 SECONDS",
        "GEOHASH[7](position) BY region, stop EVERY 5 SECONDS WITH SALIENCE 2",
        "place: STREAM FROM position(metric='speed', latitude='lat', longitude='lon');"
        " moving = COMPUTE GEOHASH[6](place WHEN > 24 AND region == east) BY stop EVERY 5 SECONDS",
        "place: STREAM FROM position(metric='speed', latitude='lat', longitude='lon');"
        " east: STREAM FROM storage(region='east');"
        " eastern = COMPUTE GEOHASH[5](place FROM (east, bus_3)) BY city",
        "SUM(passengers, 10 SECONDS) BY city WHEN GEOHASH[2](position) IN ('sw', 'sn') "
        "EVERY 5 SECONDS",
    ),
    "operators over texts": (
        "COUNT(request WHEN ipToCountry(ip) NOT IN legalCountries(movie), 5 SECONDS) "
        "EVERY 5 SECONDS",
        "illegal_share = COMPUTE COUNT(request WHEN ipToCountry(ip) NOT IN legalCountries(movie), "
        "10 SECONDS) / COUNT(request, 10 SECONDS) EVERY 5 SECONDS",
        "COUNT(request WHEN ipToCountry(ip) IN legalCountries(movie), 5 SECONDS) BY region "
        "EVERY 5 SECONDS",
        "COUNT(request WHEN country IN legalCountries(movie), 5 SECONDS) BY movie EVERY 5 SECONDS",
        "COUNT(request WHEN country IN legalCountries('Zorba') AND region == west, 5 SECONDS) "
        "EVERY 5 SECONDS",
        'COUNT(request WHEN ipToCountry(ip) == "CY", 5 SECONDS) EVERY 5 SECONDS',
        "COUNT(request WHEN ipToCountry(ip) IN (CY, GR), 5 SECONDS) EVERY 5 SECONDS",
    ),
    "COMPUTE of an attribute or a stream": (
        "load = COMPUTE AVG(passengers, 5 SECONDS) BY stop EVERY 5 SECONDS;\n"
        "crowded = COMPUTE stop WHEN INSIGHT load > 6 EVERY 5 SECONDS",
        "late = COMPUTE AVG(delay, 5 SECONDS) EVERY 5 SECONDS;\n"
        "stream_when_late = COMPUTE speed WHEN INSIGHT late > 2 EVERY 5 SECONDS",
        "used = COMPUTE SUM(energy, 5 SECONDS) BY node EVERY 5 SECONDS;\n"
        "hungry = COMPUTE node WHEN INSIGHT used > 200 EVERY 5 SECONDS WITH SALIENCE 4",
        "cheapest = COMPUTE node EVERY 5 SECONDS WITH ALLOW WHEN dc_cost == MIN(cost, 5 SECONDS)",
        "sick = COMPUTE COUNT(disease WHEN == malaria, 10 SECONDS) BY city EVERY 5 SECONDS;\n"
        "warn = COMPUTE city WHEN INSIGHT sick >= 3 EVERY 5 SECONDS",
        "mean = COMPUTE AVG(delay, 10 SECONDS) BY region EVERY 5 SECONDS;\n"
        "spread = COMPUTE region WHEN INSIGHT mean > 1 AND INSIGHT mean < 9 EVERY 5 SECONDS",
        "COMPUTE_HERE = COMPUTE entityID EVERY 5 SECONDS WITH ALLOW WHEN AVG(delay, 5 SECONDS) > 2",
    ),
    "ALLOW of attributes and aggregates": (
        "AVG(delay, 5 SECONDS) EVERY 5 SECONDS WITH ALLOW WHEN dc_cost >= MIN(cost, 5 SECONDS)",
        "SUM(passengers, 5 SECONDS) BY region EVERY 5 SECONDS "
        "WITH ALLOW WHEN dc_cost <= AVG(cost, 5 SECONDS)",
        "COUNT(request, 5 SECONDS) EVERY 5 SECONDS WITH ALLOW WHEN region == east AND "
        "COUNT(disease, 5 SECONDS) > 3",
        "MAX(energy, 10 SECONDS) BY node EVERY 5 SECONDS "
        "WITH ALLOW WHEN dc_cost < MAX(cost, 5 SECONDS) AND AVG(delay, 5 SECONDS) < 10",
        "AVG(cost, 5 SECONDS) EVERY 5 SECONDS WITH SALIENCE 3 AND ALLOW WHEN cost < 10",
        "AVG(passengers, 5 SECONDS) BY stop EVERY 5 SECONDS "
        "WITH ALLOW WHEN MIN(cost, 5 SECONDS) == dc_cost",
        "AVG(delay, 5 SECONDS) EVERY 5 SECONDS "
        "WITH ALLOW WHEN region IN (east, north) OR dc_cost > MEDIAN(cost, 10 SECONDS)",
    ),
}
