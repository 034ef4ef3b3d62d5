"""The cost model: estimates the demand of fragments from what running fragments take."""
