"""The points before the present: their aggregates, for windows that end at points."""
