"""The MCP endpoint as a feature of the center."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tocsin.http.app import METHODS
from tocsin.http.routes import Handler, Surface
from tocsin.mcp.server import McpServer, select_tools
from tocsin.mcp.transport import other_method
from tocsin.plugin import LOGIN, Feature, Route, Toolset

if TYPE_CHECKING:
    from tocsin.app.core import Core

PATHS = ("/mcp", "/mcp/*rest")


class Mcp(Feature):
    """Serves the tools of the installed toolsets at ``/mcp``."""

    name = "mcp"

    def routes(self, core: Core) -> Iterable[Route]:
        """Return the rows, none when the endpoint is switched off."""
        options = core.http.a2a
        if options.disable or options.disable_mcp:
            return
        tools = select_tools(core.plugins.of(Toolset), options.toolsets, write=options.write_tools)
        post: Handler = McpServer(tools).post
        for path in PATHS:
            for method in METHODS:
                yield Route(method, path, post if method == "POST" else other_method, LOGIN, Surface.ROOT)


FEATURE = Mcp()
