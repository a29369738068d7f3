"""Log entries that are one line each, whatever is quoted in them."""

from __future__ import annotations

import logging
import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Characters that end a line or command a terminal."""


class LineFormatter(logging.Formatter):
    """Escapes control characters in messages: labels of series, answers of backends and names come from strangers.

    Only traces, which follow their message, have lines of their own.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is given
        """Return the entry without its trace."""
        return _CONTROL.sub(lambda found: repr(found[0])[1:-1], super().formatMessage(record))
