"""Runs the scheduled jobs of all features, in the process that also evaluates rules."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from croniter import croniter

if TYPE_CHECKING:
    from tocsin.app.core import Core
    from tocsin.plugin import Job

log = logging.getLogger(__name__)


def next_run(job: Job, now: float) -> float:
    """Return the epoch second at which ``job`` is due next, strictly after ``now``."""
    if job.cron:
        return float(croniter(job.cron, datetime.fromtimestamp(now).astimezone()).get_next(float))
    return (now // job.every + 1) * job.every


class JobRunner:
    """One thread per job: a slow job delays nobody, runs of one job never overlap, a missed slot is counted."""

    def __init__(self, core: Core, *, clock: Callable[[], float] = time.time) -> None:
        self._core = core
        self._clock = clock
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._runs = core.metrics.counter("svc_job_runs_total", "Runs of scheduled jobs.", ("job", "outcome"))
        self._missed = core.metrics.counter("svc_job_missed_total", "Slots that passed during a run.", ("job",))

    def start(self) -> None:
        """Start the thread of every job of this process kind."""
        for feature in self._core.features:
            for job in (job for job in feature.jobs if self._core.process in job.processes):
                name = f"{feature.name}.{job.name}"
                self._missed.labels(name).inc(0)
                thread = threading.Thread(target=self._loop, args=(name, job), name=f"job {name}", daemon=True)
                thread.start()
                self._threads.append(thread)

    def stop(self, timeout: float) -> None:
        """Let running jobs finish within ``timeout`` seconds in all and start no more."""
        self._stopping.set()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _loop(self, name: str, job: Job) -> None:
        failing = False
        due = next_run(job, self._clock())
        while not self._stopping.wait(max(0.0, due - self._clock())):
            failing = self._run(name, job, failing)
            following = next_run(job, due)
            due = next_run(job, self._clock())
            if due > following:
                self._missed.labels(name).inc()

    def _run(self, name: str, job: Job, failing: bool) -> bool:
        """Run a job once; return whether it failed.  Only the first failure of a row of them is logged."""
        try:
            job.run(self._core)
        except Exception:
            if not failing:
                log.exception("job %s failed; it goes on failing silently until it succeeds", name)
            self._runs.labels(name, "error").inc()
            return True
        finally:
            self._core.release()
        if failing:
            log.info("job %s works again", name)
        self._runs.labels(name, "success").inc()
        return False
