"""The oracle: the results of queries, computed by SQL in DuckDB; and random queries and points."""
