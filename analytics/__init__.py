"""Code that the enabler and the workers share: plans, panes, operators, models and clients."""
