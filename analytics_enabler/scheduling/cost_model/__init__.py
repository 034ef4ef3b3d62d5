"""The cost model: estimates the demand of fragments from the usage of running fragments."""
