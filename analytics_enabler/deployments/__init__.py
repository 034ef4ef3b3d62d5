"""What is deployed: kept in a stream of the storage agent, held in memory for reading."""
