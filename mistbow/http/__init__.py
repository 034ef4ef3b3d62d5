"""What guards a service's HTTP against too much: bodies, requests at once, heads of requests."""
