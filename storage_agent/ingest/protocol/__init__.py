"""The messages of Prometheus remote write, and the code that protoc makes of them."""
