"""Saved views: filters of list pages, kept under a name and shared with teams."""

from __future__ import annotations

from tocsin.plugin import Feature, hookimpl
from tocsin_feature_saved_views.feature import SavedViews


@hookimpl
def tocsin_features() -> list[Feature]:
    """Return the feature."""
    return [SavedViews()]
