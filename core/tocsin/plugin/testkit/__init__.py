"""What a plugin's tests need: a whole application (fixture ``make_app``), contract tests per kind, real programs.

Installed with ``pip install tocsin[test]``; its fixtures are there in every pytest run without an import.
"""

from tocsin.http.client import Answer, WsgiClient
from tocsin.plugin.testkit._app import ROOT_PASSWORD, AppFactory, TestApp, dat, err

__all__ = ["ROOT_PASSWORD", "Answer", "AppFactory", "TestApp", "WsgiClient", "dat", "err"]
