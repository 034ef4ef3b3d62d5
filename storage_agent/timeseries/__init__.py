"""The points of this site: their encoding, catalogue, queries and removal."""
