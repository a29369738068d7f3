"""The embedded time-series store of Tocsin."""
