"""The results of deployments: reading those that stand, following those to come."""
