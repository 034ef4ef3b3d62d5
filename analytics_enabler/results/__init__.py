"""Reading the results of deployments: the latest results, or new results as they arrive."""
