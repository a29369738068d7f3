# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The decoder of chunks, compiled. `_chunks_py.py` is its twin and its documentation; both pass the same tests."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Check, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

cdef enum:
    MOST_SCALE = 6
    RAW = 255

cdef double[7] POWERS
POWERS[:] = [1.0, 10.0, 100.0, 1000.0, 10000.0, 100000.0, 1000000.0]


cdef int add_planes(object packed, Py_ssize_t rows, int first, int most, uint64_t* out) except -1:
    """Add the planes of some bytes, the lowest of which is byte `first`, to `rows` integers."""
    cdef Py_ssize_t size, planes, plane, row
    cdef const uint8_t* at
    cdef int shift
    if PyByteArray_Check(packed):
        size, at = PyByteArray_GET_SIZE(packed), <const uint8_t*> PyByteArray_AS_STRING(packed)
    elif PyBytes_Check(packed):
        size, at = PyBytes_GET_SIZE(packed), <const uint8_t*> PyBytes_AS_STRING(packed)
    else:
        raise ValueError("a chunk's column is not bytes")
    if size == 0:
        return 0
    planes = size // rows if rows else 0
    if planes * rows != size or planes > most:
        raise ValueError("a chunk's column has the wrong length")
    for plane in range(planes):
        shift = 8 * (first + plane)
        for row in range(rows):
            out[row] |= (<uint64_t> at[row]) << shift
        at += rows
    return 0


def decode(
    list gaps,
    list low,
    list middle,
    list high,
    const int64_t[::1] starts,
    const int64_t[::1] steps,
    const int64_t[::1] firsts,
    const uint8_t[::1] scales,
    const int32_t[::1] samples,
    int64_t[::1] times,
    double[::1] values,
):
    """See the twin."""
    cdef Py_ssize_t chunk, chunks = samples.shape[0], begin = 0, rows, row
    cdef int64_t time, number, step
    cdef uint64_t zigzag
    cdef double power
    cdef int64_t* at_time
    cdef int64_t* at_number
    cdef double* at_value
    if not (len(gaps) == len(low) == len(middle) == len(high) == chunks):
        raise ValueError("columns differ in length")
    if not (starts.shape[0] == steps.shape[0] == firsts.shape[0] == scales.shape[0] == chunks):
        raise ValueError("columns differ in length")
    if times.shape[0] != values.shape[0]:
        raise ValueError("times and values differ in length")
    for chunk in range(chunks):
        rows = samples[chunk] - 1
        if rows < 0 or begin + rows >= times.shape[0]:
            raise ValueError("a chunk's number of samples is wrong")
        if scales[chunk] > MOST_SCALE and scales[chunk] != RAW:
            raise ValueError("a chunk's scale is wrong")
        at_time, at_value = &times[begin], &values[begin]
        at_number = <int64_t*> at_value
        for row in range(rows):
            at_time[row + 1] = 0
            at_number[row + 1] = 0
        add_planes(<object> PyList_GET_ITEM(gaps, chunk), rows, 0, 8, <uint64_t*> (at_time + 1))
        add_planes(<object> PyList_GET_ITEM(low, chunk), rows, 0, 1, <uint64_t*> (at_number + 1))
        add_planes(<object> PyList_GET_ITEM(middle, chunk), rows, 1, 1, <uint64_t*> (at_number + 1))
        add_planes(<object> PyList_GET_ITEM(high, chunk), rows, 2, 6, <uint64_t*> (at_number + 1))
        time, step, number = starts[chunk], steps[chunk], firsts[chunk]
        at_time[0], at_number[0] = time, number
        for row in range(1, rows + 1):
            time = <int64_t> (<uint64_t> time + <uint64_t> step + <uint64_t> at_time[row])
            at_time[row] = time
            zigzag = <uint64_t> at_number[row]
            number = <int64_t> (<uint64_t> number + ((zigzag >> 1) ^ (0 - (zigzag & 1))))
            at_number[row] = number
        if scales[chunk] != RAW:
            power = POWERS[scales[chunk]]
            for row in range(rows + 1):
                at_value[row] = <double> at_number[row] / power
        begin += rows + 1
    if begin != times.shape[0]:
        raise ValueError("chunks hold fewer samples than expected")
