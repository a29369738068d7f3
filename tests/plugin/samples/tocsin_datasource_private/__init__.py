"""A datasource plugin that reaches into core."""

from tocsin.store.vault import Vault  # noqa: F401 - the point of this plugin
