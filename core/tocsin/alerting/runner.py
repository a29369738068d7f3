"""Runs the engine: its thread, its heartbeat, and a lane of query threads per datasource."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from tocsin.alerting.engine import Engine
from tocsin.alerting.membership import Membership
from tocsin.alerting.metrics import AlertMetrics
from tocsin.alerting.roster import Roster
from tocsin.events.outbox import Outbox

if TYPE_CHECKING:
    from tocsin.app.core import Core

log = logging.getLogger(__name__)
LONGEST_WAIT = 1.0
"""Seconds after which the engine looks for changed rules even if nothing is due."""
STOP_SECONDS = 10.0
"""How long what is under way gets to end when the engine stops."""


class Lanes:
    """A few threads per datasource, so that one that hangs keeps none of the others waiting."""

    def __init__(self, core: Core, width: int) -> None:
        self._core = core
        self._width = width
        self._lanes: dict[int, ThreadPoolExecutor] = {}
        self._under_way: set[Future[None]] = set()

    def submit(self, datasource_id: int, function: Callable[[], None]) -> None:
        """Run a function in the lane of a datasource; called by the engine's thread only."""
        lane = self._lanes.get(datasource_id)
        if lane is None:
            lane = self._lanes[datasource_id] = ThreadPoolExecutor(self._width, f"alert-query-{datasource_id}")
        query = lane.submit(self._run, function)
        self._under_way.add(query)
        query.add_done_callback(self._under_way.discard)

    def _run(self, function: Callable[[], None]) -> None:
        try:
            function()
        finally:
            self._core.release()

    def close(self, timeout: float) -> None:
        """Let queries that have not begun go, and wait for those under way: they still use the database."""
        for lane in self._lanes.values():
            lane.shutdown(wait=False, cancel_futures=True)
        self._lanes.clear()
        wait(self._under_way.copy(), timeout)


class Loop:
    """A thread that does one thing again and again and outlives its failures; each new one is logged once."""

    def __init__(self, core: Core, name: str, work: Callable[[], float], metrics: AlertMetrics) -> None:
        self._core = core
        self._work = work
        self._failed = metrics.loop_errors.labels(name)
        self._stopping = threading.Event()
        self._last_error = ""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self, delay: float = 0.0) -> None:
        """Begin after ``delay`` seconds."""
        self._delay = delay
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End after the work in hand."""
        self._stopping.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        pause = self._delay
        while not self._stopping.wait(pause):
            pause = self._once()

    def _once(self) -> float:
        try:
            pause = self._work()
            self._last_error = ""
            return pause
        except Exception as error:
            self._failed.inc()
            if repr(error) != self._last_error:
                self._last_error = repr(error)
                log.exception("%s: failed, going on", self._thread.name)
            return LONGEST_WAIT
        finally:
            self._core.release()


class EngineRunner:
    """Everything that runs in the engine process for alerting."""

    def __init__(
        self,
        core: Core,
        engine: Engine,
        roster: Roster,
        membership: Membership,
        lanes: Lanes,
        metrics: AlertMetrics,
        *,
        beat_seconds: float,
        delay: float,
    ) -> None:
        self._core = core
        self._engine = engine
        self._roster = roster
        self._membership = membership
        self._lanes = lanes
        self._metrics = metrics
        self._beat_seconds = beat_seconds
        self._delay = delay
        self._evaluation = Loop(core, "alert-engine", self._evaluate, metrics)
        self._heartbeat = Loop(core, "alert-heartbeat", self._beat, metrics)

    def start(self) -> None:
        """Start the threads; the first evaluation waits for the configured delay."""
        outbox = self._core.get(Outbox)
        outbox.others = self._membership.others
        self._heartbeat.start()
        self._evaluation.start(self._delay)

    def stop(self) -> None:
        """Stop evaluating, record what is at hand, and leave the rings."""
        self._evaluation.stop(STOP_SECONDS)
        self._heartbeat.stop(STOP_SECONDS)
        self._lanes.close(STOP_SECONDS)
        try:
            self._membership.leave()
        except Exception:
            log.exception("the heartbeat of this engine could not be withdrawn; others wait until it is stale")
        finally:
            self._core.release()

    def _evaluate(self) -> float:
        now = self._core.clock()
        self._engine.step(now)
        self._engine.settle(max(self._engine.wait_time(self._core.clock(), LONGEST_WAIT), 0.005))
        return 0.0

    def _beat(self) -> float:
        try:
            self._membership.beat(self._roster.bound())
        except Exception:
            self._metrics.heartbeat_errors.inc()
            raise
        self._metrics.queue.set(self._core.get(Outbox).size())
        return self._beat_seconds
