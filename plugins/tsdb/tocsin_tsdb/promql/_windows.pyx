# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# distutils: extra_compile_args = -ffp-contract=off
"""Samples at the steps of a grid, compiled. `_windows_py.py` is its twin and its documentation."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import numpy as np

cdef uint64_t STALE = 0x7FF0000000000002
cdef double THRESHOLD = 1.1


cdef int check_offsets(const int64_t[::1] offsets, Py_ssize_t samples) except -1:
    cdef Py_ssize_t row
    for row in range(offsets.shape[0] - 1):
        if offsets[row] < 0 or offsets[row + 1] < offsets[row]:
            raise IndexError("offsets must ascend")
    if offsets[offsets.shape[0] - 1] > samples:
        raise IndexError("offsets beyond the samples")
    return 0


def positions(const int64_t[::1] timestamps, const int64_t[::1] offsets, const int64_t[::1] times):
    """See the twin."""
    cdef Py_ssize_t series = offsets.shape[0] - 1, steps = times.shape[0], row, step
    cdef int64_t at, end
    out = np.empty((series, steps), np.int64)
    cdef int64_t[:, ::1] indexes = out
    check_offsets(offsets, timestamps.shape[0])
    with nogil:
        for row in range(series):
            at, end = offsets[row], offsets[row + 1]
            for step in range(steps):
                while at < end and timestamps[at] <= times[step]:
                    at += 1
                indexes[row, step] = at
    return out


def latest(
    const int64_t[::1] timestamps,
    const double[::1] values,
    const int64_t[::1] offsets,
    const int64_t[::1] times,
    int64_t lookback,
    bint stamps,
    double[:, ::1] out,
    uint8_t[:, ::1] present,
):
    """See the twin."""
    cdef Py_ssize_t series = offsets.shape[0] - 1, steps = times.shape[0], row, step
    cdef int64_t at, begin, end
    cdef uint64_t bits
    check_offsets(offsets, min(timestamps.shape[0], values.shape[0]))
    if out.shape[0] != series or present.shape[0] != series or out.shape[1] != steps or present.shape[1] != steps:
        raise IndexError("the result does not have a row for each series and a column for each step")
    with nogil:
        for row in range(series):
            begin, end = offsets[row], offsets[row + 1]
            at = begin
            for step in range(steps):
                while at < end and timestamps[at] <= times[step]:
                    at += 1
                present[row, step] = 0
                out[row, step] = 0
                if at > begin and timestamps[at - 1] > times[step] - lookback:
                    memcpy(&bits, &values[at - 1], sizeof(bits))
                    if bits != STALE:
                        present[row, step] = 1
                        out[row, step] = <double>timestamps[at - 1] if stamps else values[at - 1]


def extrapolated(
    const int64_t[::1] timestamps,
    const double[::1] values,
    const int64_t[:, ::1] low,
    const int64_t[:, ::1] high,
    const int64_t[::1] starts,
    const int64_t[::1] ends,
    int64_t range_ms,
    bint counter,
    bint per_second,
):
    """See the twin."""
    cdef Py_ssize_t samples = min(timestamps.shape[0], values.shape[0]), series = low.shape[0], steps = low.shape[1]
    cdef Py_ssize_t row, step
    cdef double seconds = <double>range_ms / 1000 if per_second else 1.0
    cdef int64_t *resets = NULL
    out, enough = np.zeros((series, steps)), np.zeros((series, steps), np.uint8)
    cdef double[:, ::1] result = out
    cdef uint8_t[:, ::1] present = enough
    if high.shape[0] != series or high.shape[1] != steps or starts.shape[0] != steps or ends.shape[0] != steps:
        raise IndexError("windows differ in shape")
    for row in range(series):
        for step in range(steps):
            if high[row, step] - low[row, step] > 1 and (low[row, step] < 0 or high[row, step] > samples):
                raise IndexError("window outside of the samples")
    if counter:
        resets = following_resets(values, samples)
        if resets == NULL:
            raise MemoryError
    with nogil:
        for row in range(series):
            for step in range(steps):
                if high[row, step] - low[row, step] > 1:
                    present[row, step] = 1
                    result[row, step] = one_window(
                        &timestamps[0], &values[0], low[row, step], high[row, step] - 1,
                        starts[step], ends[step], seconds, resets,
                    )
        free(resets)
    return out, enough.view(np.bool_)


cdef int64_t *following_resets(const double[::1] values, Py_ssize_t samples) noexcept:
    """Return for each sample the next one after it that is lower than its predecessor (`samples` where there is none)."""
    cdef int64_t *resets = <int64_t *>malloc((samples + 1) * sizeof(int64_t))
    cdef Py_ssize_t at
    cdef int64_t following = samples
    if resets == NULL:
        return NULL
    with nogil:
        for at in range(samples - 1, -1, -1):
            resets[at] = following
            if at and values[at] < values[at - 1]:
                following = at
    return resets


cdef double one_window(
    const int64_t *timestamps,
    const double *values,
    int64_t first,
    int64_t last,
    int64_t start,
    int64_t end,
    double seconds,
    const int64_t *resets,
) noexcept nogil:
    """Extrapolate one window of at least two samples; `resets` only for counters."""
    cdef double result = values[last] - values[first]
    cdef double sampled, average, threshold, to_start, to_end, to_zero
    cdef int64_t at
    if resets != NULL:
        at = resets[first]
        while at <= last:
            result += values[at - 1]
            at = resets[at]
    sampled = <double>(timestamps[last] - timestamps[first]) / 1000
    average = sampled / <double>(last - first)
    threshold = average * THRESHOLD
    to_start = <double>(timestamps[first] - start) / 1000
    to_end = <double>(end - timestamps[last]) / 1000
    if to_start >= threshold:
        to_start = average / 2
    if resets != NULL and result > 0 and values[first] >= 0:
        # A counter cannot have been negative: do not extrapolate beyond its zero point.
        to_zero = sampled * (values[first] / result)
        if to_zero < to_start:
            to_start = to_zero
    if to_end >= threshold:
        to_end = average / 2
    return result * ((sampled + to_start + to_end) / sampled / seconds)
