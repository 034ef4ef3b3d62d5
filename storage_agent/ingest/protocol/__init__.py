"""The message definitions of Prometheus remote write, and the code that protoc generates."""
