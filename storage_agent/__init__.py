"""The storage agent: stores the data of a site in Ignite, and answers queries about the data."""
