"""The storage agent: keeps a site's data in Ignite and answers for it."""
