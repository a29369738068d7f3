"""A datasource plugin that reaches into core."""

from tocsin_datasource_sample import tocsin_datasource_types  # noqa: F401

from tocsin.store.vault import Vault  # noqa: F401 - the point of this plugin
