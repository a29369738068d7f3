"""The Prometheus HTTP API of the store, as a WSGI application."""
