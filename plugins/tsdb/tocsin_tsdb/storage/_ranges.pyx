# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Copying many ranges of samples at once, compiled. `_ranges_py.py` is its twin and its documentation."""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy


def copy_ranges(
    times,
    int64_t base,
    const double[::1] values,
    const int64_t[::1] starts,
    const int64_t[::1] counts,
    const int64_t[::1] targets,
    int64_t[::1] out_times,
    double[::1] out_values,
):
    """See the twin."""
    cdef Py_ssize_t i
    for i in range(counts.shape[0]):
        if counts[i] <= 0:
            continue
        if starts[i] < 0 or starts[i] + counts[i] > values.shape[0]:
            raise IndexError("range outside of the samples")
        if targets[i] < 0 or targets[i] + counts[i] > out_values.shape[0]:
            raise IndexError("range outside of the result")
        memcpy(&out_values[targets[i]], &values[starts[i]], counts[i] * sizeof(double))
    if times.shape[0] != values.shape[0] or out_times.shape[0] != out_values.shape[0]:
        raise IndexError("times and values differ in length")
    if times.itemsize == 4:
        _copy_short(times, base, starts, counts, targets, out_times)
    else:
        _copy_long(times, base, starts, counts, targets, out_times)


cdef void _copy_short(
    const uint32_t[::1] times,
    int64_t base,
    const int64_t[::1] starts,
    const int64_t[::1] counts,
    const int64_t[::1] targets,
    int64_t[::1] out,
):
    cdef Py_ssize_t i, j
    for i in range(counts.shape[0]):
        for j in range(counts[i]):
            out[targets[i] + j] = base + times[starts[i] + j]


cdef void _copy_long(
    const int64_t[::1] times,
    int64_t base,
    const int64_t[::1] starts,
    const int64_t[::1] counts,
    const int64_t[::1] targets,
    int64_t[::1] out,
):
    cdef Py_ssize_t i, j
    for i in range(counts.shape[0]):
        for j in range(counts[i]):
            out[targets[i] + j] = base + times[starts[i] + j]
