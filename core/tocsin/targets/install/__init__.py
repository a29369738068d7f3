"""Helpers for putting the collector on a host that has no credentials yet: addresses, packages and two scripts."""
