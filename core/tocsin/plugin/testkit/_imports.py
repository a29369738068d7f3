"""What importing a module loads: asked of an interpreter that has core and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, cast

# Each answer is a fork's, so no question knows of the ones before; what costs a second, core itself, is loaded once.
_PROGRAM = """
import json, os, sys, traceback
import tocsin.app.bootstrap
from tocsin.app.capabilities import core_features

ANSWERED = 7
answers = os.dup(1)
os.dup2(2, 1)  # what a module prints is no answer

def tell(answer):
    os.write(answers, json.dumps(answer).encode() + b"\\n")

core_features()
known = set(sys.modules)
for question in sys.stdin:
    module, path = json.loads(question)
    if os.fork():
        if os.waitstatus_to_exitcode(os.wait()[1]) != ANSWERED:
            tell({"error": f"importing {module} ends the process"})
        continue
    sys.path = path
    try:
        __import__(module)
        loaded = {name.split(".")[0] for name in set(sys.modules) - known}
        answer = {"loaded": sorted(loaded - sys.stdlib_module_names)}
    except BaseException:
        answer = {"error": traceback.format_exc()}
    tell(answer)
    os._exit(ANSWERED)
"""


class BareCore:
    """An interpreter that has loaded core as a service without plugins does."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._asked, self._answers = cast(IO[str], process.stdin), cast(IO[str], process.stdout)

    def third_party_imports(self, module: str) -> set[str]:
        """Return the top-level packages beyond core and the standard library that importing a module loads.

        Modules are looked for where this process does.  Raises :class:`AssertionError` when the import fails.
        """
        self._asked.write(json.dumps([module, list(filter(None, sys.path))]) + "\n")
        self._asked.flush()
        answer = json.loads(self._answers.readline())
        assert "error" not in answer, answer["error"]
        return set(answer["loaded"])


@contextmanager
def bare_core() -> Iterator[BareCore]:
    """Start such an interpreter, and end it; it also ends when this process does."""
    command = [sys.executable, "-c", _PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        yield BareCore(process)
