"""The Ignite cluster of a site: describes its nodes, and repairs streams that lost rows."""
