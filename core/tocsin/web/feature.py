"""The page shown where no user interface is installed."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from tocsin import __version__
from tocsin.http.context import Context, Raw, text
from tocsin.http.routes import Surface
from tocsin.plugin import Feature

if TYPE_CHECKING:
    from tocsin.app.core import Core
    from tocsin.http.routes import Handler

ASSET_SUFFIXES = (
    *(".png", ".jpeg", ".jpg", ".svg", ".ico", ".gif", ".ttf", ".woff2"),
    *(".css", ".js", ".map", ".html", ".htm", ".gz", ".zip", ".md", ".toml"),
)
FOR_EVERY_METHOD = (f"{Surface.PAGE.value}/", "/mcp", "/a2a", "/oauth/", "/.well-known/")
"""Where clients tell what there is by whether the answer is JSON."""


class StaticPage(Feature):
    """Answers paths that no route matches with one honest page; missing assets and what programs ask for are 404."""

    name = "web"

    def fallback(self, core: Core) -> Handler | None:
        """Return the handler of the single-page entry."""
        template = files(__package__).joinpath("page.html").read_text("utf-8")
        page = template.replace("{version}", escape(f"v{__version__}")).encode()

        def entry(context: Context) -> Raw:
            return Raw(page, "text/html; charset=utf-8") if _is_page(context) else text("404 page not found", 404)

        return entry


def _is_page(context: Context) -> bool:
    """Return whether a page may answer; to a sender at a mistyped address its 200 would mean that samples were taken."""
    request = context.request
    if request.path.startswith(FOR_EVERY_METHOD):
        return True
    if request.method not in ("GET", "HEAD") or request.path.startswith(Surface.SERVICE.value + "/"):
        return False
    return not request.path.endswith(ASSET_SUFFIXES)


FEATURE = StaticPage()
