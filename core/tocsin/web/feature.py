"""The page shown where no user interface is installed."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from tocsin import __version__
from tocsin.http.context import Context, Raw, text
from tocsin.plugin import Feature

if TYPE_CHECKING:
    from tocsin.app.core import Core
    from tocsin.http.routes import Handler

ASSET_SUFFIXES = (
    *(".png", ".jpeg", ".jpg", ".svg", ".ico", ".gif", ".ttf", ".woff2"),
    *(".css", ".js", ".map", ".html", ".htm", ".gz", ".zip", ".md", ".toml"),
)


class StaticPage(Feature):
    """Answers paths that no route matches with one honest page; missing assets are 404."""

    name = "web"

    def fallback(self, core: Core) -> Handler | None:
        """Return the handler of the single-page entry."""
        template = files(__package__).joinpath("page.html").read_text("utf-8")
        page = template.replace("{version}", escape(f"v{__version__}")).encode()

        def entry(context: Context) -> Raw:
            if context.request.path.endswith(ASSET_SUFFIXES):
                return text("404 page not found", 404)
            return Raw(page, "text/html; charset=utf-8")

        return entry


FEATURE = StaticPage()
