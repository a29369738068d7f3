"""The center's application under a WSGI server that is not ours."""

from __future__ import annotations

import atexit
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tocsin.app.bootstrap import configure_logging, make_application, open_core, prepare

if TYPE_CHECKING:
    from tocsin.http.app import Application

log = logging.getLogger(__name__)


def standalone_application() -> Application:
    """Return the application configured by the directory in ``TOCSIN_CONFIG`` (default ``etc``).

    It serves HTTP and consumes its own ingest queues; rule evaluation, scheduled jobs and sidecars need ``tocsin center``.
    """
    core = open_core("center", Path(os.environ.get("TOCSIN_CONFIG", "etc")))
    configure_logging(core.settings)
    prepare(core)
    for line in (line for feature in core.features for line in feature.greeting(core)):
        print(line, flush=True)
    log.warning("serving HTTP only: rule evaluation, scheduled jobs and sidecars run under 'tocsin center'")
    application = make_application(core)
    core.start("http")
    atexit.register(core.stop, "http")
    return application
