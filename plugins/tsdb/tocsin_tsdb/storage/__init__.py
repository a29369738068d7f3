"""Samples at rest: index, log, memtables, blocks."""
