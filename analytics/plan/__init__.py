"""Plans: immutable descriptions of the computation of insights, encoded as JSON."""
