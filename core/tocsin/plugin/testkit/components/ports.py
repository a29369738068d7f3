"""TCP ports for programs that must be told theirs before they listen.

A port that the system picks comes from the range of which outgoing connections get theirs, so anybody may have it a
moment later. Those here lie below that range, and test runs agree on who may use which: each process claims a block by
binding a Unix socket of the abstract namespace, which the kernel gives back however the process ends.
"""

import itertools
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

_FIRST = 20_000
_BLOCK = 64
_OUTGOING = 32_768
"""Where the range of outgoing connections begins unless a machine is set up otherwise."""


def _end() -> int:
    """Return the port behind our last one; a machine that leaves no room below its outgoing ports lends us some."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    return first if first >= _FIRST + 16 * _BLOCK else _OUTGOING


def _claims() -> Iterator[int]:
    """Claim one block after another for the life of this process and yield the first port of each.

    The order is not that of the seeded generator, which is the same in every process of a test run.
    """
    blocks = range(_FIRST, _end() - _BLOCK + 1, _BLOCK)
    for first in random.SystemRandom().sample(blocks, len(blocks)):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0tocsin-test-ports-{first}")
        except OSError:
            claim.close()
        else:
            claim.detach()  # open until the process ends, and no object that would complain of it then
            yield first


_ports = itertools.chain.from_iterable(range(first, first + _BLOCK) for first in _claims())
_lock = threading.Lock()


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 on which nothing listens and that no other test is given.

    Raises :class:`RuntimeError` when there is none left.
    """
    with _lock:
        for port in _ports:
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            return port
    raise RuntimeError("no free port is left for tests")
