"""What a storage agent does, and what it takes: the figures that are promised of it."""
