"""Hosts: how they become known, what they say about themselves, and what is attached to their series.

Other capabilities use :class:`~tocsin.targets.hosts.Hosts` (tags, groups and notes of hosts as of now) and
:class:`~tocsin.targets.pulse.Pulse` (when hosts were last seen, and what they last said).
"""
