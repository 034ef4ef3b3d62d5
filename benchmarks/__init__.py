"""What the suite achieves on the machine at hand: ``make bench``."""
