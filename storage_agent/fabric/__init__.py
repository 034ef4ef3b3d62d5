"""The storage agent among those of other sites: who is there, what they have, and the ways."""
