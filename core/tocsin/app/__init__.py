"""Processes, configuration and the command line.  ``tocsin.app:wsgi`` serves under any WSGI server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tocsin.http.app import Application

    wsgi: Application


def __getattr__(name: str) -> Any:
    """Build ``wsgi`` when a WSGI server asks for it: importing the package must stay cheap and free of effects."""
    if name == "wsgi":
        from tocsin.app.standalone import standalone_application

        application = standalone_application()
        globals()["wsgi"] = application
        return application
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
