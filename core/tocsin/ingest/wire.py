"""Which twin of the wire functions the service runs.

`TOCSIN_PURE=1` chooses the plain one; `TOCSIN_REQUIRE_COMPILED=1` makes a missing extension a failure instead of a fallback.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import cast

from tocsin.ingest.interface import Wire


def choose(environ: Mapping[str, str]) -> Wire:
    """Return the module that an environment asks for.

    :raises ImportError: the compiled twin is required and missing.
    """
    if environ.get("TOCSIN_PURE") == "1":
        return cast(Wire, importlib.import_module("tocsin.ingest._wire_py"))
    try:
        return cast(Wire, importlib.import_module("tocsin.ingest._wire"))
    except ImportError as error:
        if environ.get("TOCSIN_REQUIRE_COMPILED") == "1":
            raise ImportError("TOCSIN_REQUIRE_COMPILED=1, but tocsin.ingest._wire was not built") from error
        return cast(Wire, importlib.import_module("tocsin.ingest._wire_py"))


wire: Wire = choose(os.environ)
"""The wire functions of this process."""
