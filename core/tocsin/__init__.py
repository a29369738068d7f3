"""Tocsin: a monitoring and alerting service built as a small core and many plugins."""

__version__ = "0.1.0"
