"""A channel plugin that imports a library before anybody needs it."""

import urllib3  # noqa: F401 - the point of this plugin
