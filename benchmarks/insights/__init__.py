"""How the insights fare: what many of them cost, and how soon their results are there."""
