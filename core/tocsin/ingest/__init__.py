"""Ingest: from the bytes of a request to the writers, in one wire format from door to door.

A series travels as its protobuf-encoded remote-write `TimeSeries` message. Reading order: `interface` (types, errors
and limits of the wire functions), `_wire_py` (the wire functions, written for reading; `_wire.pyx` is their
compiled twin), `wire` (which twin is used), `labels` and `relabel` (what happens to a label set).
"""
