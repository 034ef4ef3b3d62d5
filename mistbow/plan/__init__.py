"""Plans: what insights compute, as immutable data, JSON both ways."""
