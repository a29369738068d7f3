# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Points of answers as JSON text, compiled. `_render_py.py` is its twin and its documentation.

The digits of numbers come from orjson, whole blocks of rows at a time; what is done here is to put them where they belong,
and to write exponents as Go does.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import orjson

cdef extern from "Python.h":
    PyObject *PyBytes_FromStringAndSize(const char *data, Py_ssize_t size) except NULL
    char *PyBytes_AS_STRING(PyObject *text) nogil
    int _PyBytes_Resize(PyObject **text, Py_ssize_t size) except -1

cdef extern from *:
    """
    #include <math.h>
    #include <stdint.h>
    #include <string.h>

    // Write `digits` x 10^`exponent`, where the point is after the first digit: an exponent below 1e-6 and from 1e21 on.
    static char *write_digits(char *at, const char *digits, int count, int exponent)
    {
        int k;
        if (exponent >= -6 && exponent < 0) {
            memcpy(at, "0.000000", 8);
            at += 1 - exponent;
            memcpy(at, digits, count);
            return at + count;
        }
        if (exponent >= 0 && exponent < 21) {
            for (k = 0; k <= exponent || k < count; ++k) {
                if (k == exponent + 1)
                    *at++ = '.';
                *at++ = k < count ? digits[k] : '0';
            }
            return at;
        }
        *at++ = digits[0];
        if (count > 1) {
            *at++ = '.';
            memcpy(at, digits + 1, count - 1);
            at += count - 1;
        }
        *at++ = 'e';
        *at++ = exponent < 0 ? '-' : '+';
        exponent = exponent < 0 ? -exponent : exponent;
        if (exponent >= 100)
            *at++ = '0' + exponent / 100;
        *at++ = '0' + exponent / 10 % 10;
        *at++ = '0' + exponent % 10;
        return at;
    }

    // Write a number, given as orjson wrote it; `*token` moves on to the next one.
    static char *write_value(char *at, const char **token, double value)
    {
        const char *from = *token, *power = NULL;
        char *to = at, digits[32], mark;
        int count = 0, exponent = 0;
        for (; (mark = *from) != ',' && mark != ']'; ++from) {
            *to++ = mark;
            if (mark == 'e')
                power = from;
        }
        if (**token == 'n') {  // null
            const char *text = isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf";
            to = at + strlen(text);
            memcpy(at, text, to - at);
        } else if (power != NULL) {
            const char *digit;
            for (digit = *token; digit < power; ++digit)
                if (*digit >= '0' && *digit <= '9' && count < 32)
                    digits[count++] = *digit;
            if (count > 1 && digits[count - 1] == '0')  // 1.0e16
                --count;
            for (digit = power + 1; digit < from; ++digit)
                if (*digit >= '0' && *digit <= '9')
                    exponent = 10 * exponent + (*digit - '0');
            to = write_digits(at + (**token == '-'), digits, count, power[1] == '-' ? -exponent : exponent);
        } else if (to - at > 2 && to[-1] == '0' && to[-2] == '.')
            to -= 2;
        *token = from + 1;
        return to;
    }

    // Milliseconds as seconds, with three decimals or none.
    static char *write_time(char *at, int64_t stamp)
    {
        uint64_t size = stamp < 0 ? 0 - (uint64_t)stamp : (uint64_t)stamp, seconds = size / 1000;
        const unsigned rest = (unsigned)(size % 1000);
        char digits[24];
        int count = 0;
        if (stamp < 0)
            *at++ = '-';
        do
            digits[count++] = (char)('0' + seconds % 10);
        while (seconds /= 10);
        while (count)
            *at++ = digits[--count];
        if (rest) {
            *at++ = '.';
            *at++ = (char)('0' + rest / 100);
            *at++ = (char)('0' + rest / 10 % 10);
            *at++ = (char)('0' + rest % 10);
        }
        return at;
    }
    """
    char *write_value(char *at, const char **token, double value) noexcept nogil
    char *write_time(char *at, int64_t stamp) noexcept nogil

cdef enum:
    OPENING = 32  # more than the longest `[time,"`: a time has at most 21 characters
    POINT = 64  # more than the longest `[time,"value"],`: a value has at most 25 characters
    BLOCK = 1 << 16  # so many numbers are written by orjson at a time


cdef inline char *write(char *at, const char *data, size_t size) noexcept nogil:
    memcpy(at, data, size)
    return at + size


cdef inline char *write_head(char *at, const char *heads, const int64_t[::1] ends, Py_ssize_t row) noexcept nogil:
    cdef int64_t start = ends[row - 1] if row else 0
    return write(at, heads + start, ends[row] - start)


cdef inline char *write_opening(char *at, int64_t stamp) noexcept nogil:
    """Write `[time,"`."""
    return write(write_time(write(at, b"[", 1), stamp), b',"', 2)


cdef inline char *write_point(
    char *at, const char *opening, size_t size, const char **token, double value
) noexcept nogil:
    """Write `[time,"value"],`."""
    return write(write_value(write(at, opening, size), token, value), b'"],', 3)


cdef inline const char *skipped(const char *token) noexcept nogil:
    """Return the number after the one that begins here."""
    while token[0] != b"," and token[0] != b"]":
        token += 1
    return token + 1


cdef bytes numbers(values, Py_ssize_t start, Py_ssize_t stop):
    """Return rows of a matrix, or a part of a vector, as orjson writes them: one number after the other."""
    return orjson.dumps(values[start:stop].ravel(), option=orjson.OPT_SERIALIZE_NUMPY)


cdef inline char *end_list(char *at, const char *tail, size_t size) noexcept nogil:
    """Write `tail` instead of the comma after the last of a list."""
    return write(at - 1 if (at - 1)[0] == b"," else at, tail, size)


cdef int check_heads(bytes heads, const int64_t[::1] ends, Py_ssize_t rows) except -1:
    cdef Py_ssize_t row
    if ends.shape[0] != rows or (rows and ends[rows - 1] != len(heads)):
        raise ValueError("heads and rows differ in number")
    for row in range(rows):
        if ends[row] < (ends[row - 1] if row else 0):
            raise ValueError("the ends of heads must ascend")
    return 0


cdef PyObject *room_for(bytes before, bytes heads, bytes after, Py_ssize_t rows, Py_ssize_t points) except NULL:
    """Return an uninitialised bytes object that has room for everything; pages that are not written cost nothing."""
    return PyBytes_FromStringAndSize(NULL, len(before) + len(heads) + len(after) + 4 * rows + POINT * points + 1)


cdef bytes finished(PyObject *text, char *end, bytes after):
    """Write what comes last, and return the text in its own length."""
    end = write(end, after, len(after))
    _PyBytes_Resize(&text, end - PyBytes_AS_STRING(text))
    whole = <bytes>text
    Py_DECREF(whole)
    return whole


def grid_rows(
    bytes before,
    bytes heads,
    const int64_t[::1] ends,
    const int64_t[::1] stamps,
    matrix,
    const uint8_t[:, ::1] present,
    bytes after,
):
    """See the twin."""
    cdef const double[:, ::1] values = matrix
    cdef Py_ssize_t rows = values.shape[0], steps = values.shape[1], points = 0, row, step, first
    cdef Py_ssize_t height = max(1, BLOCK // max(1, steps))
    cdef const char *head = heads
    cdef const char *token
    cdef bytes block
    cdef char *openings
    cdef size_t *lengths
    cdef PyObject *text = NULL
    cdef char *at
    if stamps.shape[0] != steps or present.shape[0] != rows or present.shape[1] != steps:
        raise ValueError("times, values and presence differ in shape")
    check_heads(heads, ends, rows)
    for row in range(rows):
        for step in range(steps):
            points += present[row, step] != 0
    lengths = <size_t *>malloc(steps * (sizeof(size_t) + OPENING) + 1)
    if lengths == NULL:
        raise MemoryError
    openings = <char *>(lengths + steps)
    try:
        for step in range(steps):
            lengths[step] = write_opening(openings + step * OPENING, stamps[step]) - (openings + step * OPENING)
        text = room_for(before, heads, after, rows, points)
        at = write(PyBytes_AS_STRING(text), before, len(before))
        for first in range(0, rows, height):
            block = numbers(matrix, first, first + height)
            token = <const char *>block + 1
            with nogil:
                for row in range(first, min(first + height, rows)):
                    at = write_head(at, head, ends, row)
                    for step in range(steps):
                        if present[row, step]:
                            at = write_point(
                                at, openings + step * OPENING, lengths[step], &token, values[row, step]
                            )
                        else:
                            token = skipped(token)
                    at = end_list(at, b"]},", 3)
    except BaseException:
        if text != NULL:
            Py_DECREF(<object>text)
        raise
    finally:
        free(lengths)
    return finished(text, at - 1 if rows else at, after)


def sample_rows(
    bytes before,
    bytes heads,
    const int64_t[::1] ends,
    const int64_t[::1] offsets,
    const int64_t[::1] stamps,
    samples,
    bytes after,
):
    """See the twin."""
    cdef const double[::1] values = samples
    cdef Py_ssize_t rows = offsets.shape[0] - 1, row, k, first = 0, last
    cdef const char *head = heads
    cdef const char *token
    cdef bytes block
    cdef char opening[OPENING]
    cdef PyObject *text
    cdef char *at
    check_heads(heads, ends, rows)
    if offsets[0] < 0 or offsets[rows] > min(stamps.shape[0], values.shape[0]):
        raise ValueError("offsets and samples differ in length")
    for row in range(rows):
        if offsets[row + 1] < offsets[row]:
            raise ValueError("offsets must ascend")
    text = room_for(before, heads, after, rows, offsets[rows] - offsets[0])
    try:
        at = write(PyBytes_AS_STRING(text), before, len(before))
        while first < rows:
            last = first + 1
            while last < rows and offsets[last + 1] - offsets[first] <= BLOCK:
                last += 1
            block = numbers(samples, offsets[first], offsets[last])
            token = <const char *>block + 1
            with nogil:
                for row in range(first, last):
                    at = write_head(at, head, ends, row)
                    for k in range(offsets[row], offsets[row + 1]):
                        at = write_point(at, opening, write_opening(opening, stamps[k]) - opening, &token, values[k])
                    at = end_list(at, b"]},", 3)
            first = last
    except BaseException:
        Py_DECREF(<object>text)
        raise
    return finished(text, at - 1 if rows else at, after)


def vector_rows(bytes before, bytes heads, const int64_t[::1] ends, int64_t stamp, vector, bytes after):
    """See the twin."""
    cdef const double[::1] values = vector
    cdef Py_ssize_t rows = values.shape[0], row
    cdef const char *head = heads
    cdef const char *token
    cdef bytes block
    cdef char opening[OPENING]
    cdef size_t length = write_opening(opening, stamp) - opening
    cdef PyObject *text
    cdef char *at
    check_heads(heads, ends, rows)
    block = numbers(vector, 0, rows)
    token = <const char *>block + 1
    text = room_for(before, heads, after, rows, rows)
    at = write(PyBytes_AS_STRING(text), before, len(before))
    with nogil:
        for row in range(rows):
            at = write_point(write_head(at, head, ends, row), opening, length, &token, values[row])
            at = end_list(at, b"},", 2)
    return finished(text, at - 1 if rows else at, after)
