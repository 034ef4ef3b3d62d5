"""The sandbox that runs schedulers, and the validation of their decisions."""
