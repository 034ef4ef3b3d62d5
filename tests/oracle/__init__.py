"""The meaning of queries in SQL of DuckDB, without our planner, and queries and data for it."""
