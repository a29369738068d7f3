"""The capabilities of core itself, as features, in the order in which they are set up."""

from __future__ import annotations

from importlib import import_module

from tocsin.plugin import Feature

CAPABILITIES: tuple[str, ...] = (
    "tocsin.access",
    "tocsin.targets",
    "tocsin.datasources",
    "tocsin.ingest",
    "tocsin.events",
    "tocsin.alerting",
    "tocsin.notify",
    "tocsin.mcp",
    "tocsin.web",
)
"""Packages of core that have a module ``feature`` with an instance ``FEATURE``."""


def core_features() -> tuple[Feature, ...]:
    """Return core's own features."""
    features = []
    for package in CAPABILITIES:
        feature: Feature = import_module(f"{package}.feature").FEATURE
        features.append(feature)
    return tuple(features)
