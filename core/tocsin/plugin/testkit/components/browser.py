"""A headless Chromium, driven over the WebDriver protocol."""

import base64
import contextlib
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tocsin.plugin.testkit.components.missing import require_program
from tocsin.plugin.testkit.components.ports import free_port
from tocsin.plugin.testkit.components.process import PATIENCE, Program, give_directory, wait_until

_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

# Root cannot use the sandbox; the rest keeps the browser from talking to anything but the pages under test.
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--window-size=1280,900",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


class WebDriverError(RuntimeError):
    """A command that the browser refused; the text is its own."""


class Browser(Program):
    """chromedriver with one Chromium session in a fresh profile."""

    def __init__(self, directory: Path) -> None:
        self._chromium = require_program("chromium", "chromium")
        program = require_program("chromedriver", "chromium-driver")
        self.port = free_port()
        self._profile = give_directory(directory / "profile", None)
        self._session = ""
        home = {"HOME": str(give_directory(directory / "home", None)), "TMPDIR": str(self._profile)}
        super().__init__("chromedriver", [program, f"--port={self.port}"], directory=directory, environment=home)

    def ready(self) -> bool:
        """Whether the browser is up; the first success opens the session."""
        if not self._request("GET", "/status")["ready"]:
            return False
        options = {"binary": str(self._chromium), "args": [*_FLAGS, f"--user-data-dir={self._profile}"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        answer = self._request("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = answer["sessionId"]
        return True

    def _request(self, method: str, path: str, body: Any = None, timeout: float = PATIENCE) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with _opener.open(request, timeout=timeout) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            with error:
                value = json.load(error)["value"]
            raise WebDriverError(f"{value['error']}: {value['message']}") from None

    def command(self, method: str, path: str, body: Any = None) -> Any:
        """Send a WebDriver command of the session, e.g. `("GET", "/title")`, and return its value."""
        return self._request(method, f"/session/{self._session}{path}", body)

    def open(self, url: str) -> None:
        """Load a page and wait for its load event."""
        self.command("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run the body of a JavaScript function and return its result; `arguments` is its `arguments`."""
        return self.command("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait_for(self, script: str, *, timeout: float = PATIENCE) -> None:
        """Wait until a JavaScript expression is true."""
        wait_until(lambda: bool(self.run(f"return !!({script})")), timeout=timeout, what=f"in the page: {script}")

    def text(self) -> str:
        """Return the visible text of the page."""
        return str(self.run("return document.body.innerText"))

    def console(self) -> list[dict[str, Any]]:
        """Return the console entries since the last call: dictionaries with level, message and source."""
        entries: list[dict[str, Any]] = self.command("POST", "/se/log", {"type": "browser"})
        return entries

    def screenshot(self, path: Path) -> Path:
        """Write a PNG of the visible part of the page."""
        path.write_bytes(base64.b64decode(self.command("GET", "/screenshot")))
        return path

    def stop(self, *, grace: float = 10.0) -> int | None:
        """Close the browser, then its driver."""
        if self._session and self.alive:
            with contextlib.suppress(OSError, WebDriverError):  # the process group is killed in any case
                self._request("DELETE", f"/session/{self._session}")
            self._session = ""
        return super().stop(grace=grace)
