"""The one way in which core calls a plugin: time limit, exception guard, metrics and error text."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tocsin.plugin import PluginCallError

if TYPE_CHECKING:
    from tocsin.http.metrics import Metrics

T = TypeVar("T")
log = logging.getLogger(__name__)
SLACK = 1.0
"""Seconds that a plugin gets beyond its limit to say by itself that time is up."""


class PluginTimeoutError(PluginCallError):
    """A plugin did not return in time; its thread goes on, and whatever it returns is thrown away."""


class PluginCrashError(PluginCallError):
    """A plugin raised something that its contract does not allow; the log has the trace."""


class PluginBusyError(PluginCallError):
    """So many calls are past their time that no further one is made."""


class PluginCalls:
    """Makes calls of plugins and counts them in ``svc_plugin_calls_total{plugin,operation,outcome}``.

    Outcomes: ``ok``, ``error`` (the plugin said why), ``timeout``, ``crash``, ``busy``.
    """

    def __init__(self, metrics: Metrics, max_overdue: int) -> None:
        self._max_overdue = max_overdue
        self._overdue: defaultdict[object, int] = defaultdict(int)
        self._lock = threading.Lock()
        self._calls = metrics.counter("svc_plugin_calls_total", "Calls of plugins.", ("plugin", "operation", "outcome"))
        self._seconds = metrics.histogram(
            "svc_plugin_call_duration_seconds", "Time that calls of plugins took, in seconds.", ("plugin", "operation")
        )
        self._waiting = metrics.gauge("svc_plugin_overdue_calls", "Calls of plugins past their time.", ("plugin",))

    def call(
        self, plugin: str, operation: str, work: Callable[[], T], *, seconds: float | None = None, about: object = None
    ) -> T:
        """Return what ``work`` returns; raise :class:`PluginCallError` when it fails or takes longer than ``seconds``.

        With a limit, ``work`` runs in a thread of its own, because nothing else can be abandoned.  ``about`` is the
        object behind the plugin (one datasource) whose overdue calls are counted together.  Without a limit ``work``
        runs here; that is for calls that do no input or output.
        """
        started = time.monotonic()
        outcome = "crash"
        try:
            if seconds is None:
                result = work()
            else:
                result = self._bounded(plugin, operation, work, seconds, (plugin, about))
            outcome = "ok"
            return result
        except PluginTimeoutError:
            outcome = "timeout"
            raise
        except PluginBusyError:
            outcome = "busy"
            raise
        except PluginCallError:
            outcome = "error"
            raise
        except Exception as error:
            log.exception("plugin %s failed in %s", plugin, operation)
            raise PluginCrashError(f"plugin {plugin} failed in {operation}: {type(error).__name__}") from None
        finally:
            self._calls.labels(plugin, operation, outcome).inc()
            self._seconds.labels(plugin, operation).observe(time.monotonic() - started)

    def _bounded(self, plugin: str, operation: str, work: Callable[[], T], seconds: float, about: object) -> T:
        if self._overdue.get(about, 0) >= self._max_overdue:
            raise PluginBusyError(f"{self._overdue[about]} earlier calls have not returned yet, not asked again")
        run = _Run(work)
        threading.Thread(target=run, name=f"plugin-{plugin}-{operation}", daemon=True).start()
        if not run.done.wait(seconds + SLACK):
            self._mark(plugin, about, 1)
            run.abandon(lambda: self._mark(plugin, about, -1))
            raise PluginTimeoutError(f"no answer within {seconds:g} s")
        if run.error is not None:
            raise run.error
        return run.result  # type: ignore[no-any-return]

    def _mark(self, plugin: str, about: object, change: int) -> None:
        with self._lock:
            self._overdue[about] += change
            if not self._overdue[about]:
                del self._overdue[about]
        self._waiting.labels(plugin).inc(change)


class _Run:
    """One call in a thread of its own."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self._lock = threading.Lock()
        self._late: Callable[[], None] | None = None

    def __call__(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:
            self.error = error
        with self._lock:
            self.done.set()
            late = self._late
        if late is not None:
            late()

    def abandon(self, late: Callable[[], None]) -> None:
        """Call ``late`` when the work ends after all, at once when it just did."""
        with self._lock:
            if not self.done.is_set():
                self._late = late
                return
        late()
