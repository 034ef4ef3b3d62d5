"""Taking points in: into the stream, or onto this node's disk while Ignite is away."""
