# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# distutils: language = c++
# distutils: extra_compile_args = -std=c++17
"""Points of answers as JSON text, compiled. `_render_py.py` is its twin and its documentation."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

cdef extern from "Python.h":
    PyObject *PyBytes_FromStringAndSize(const char *data, Py_ssize_t size) except NULL
    char *PyBytes_AS_STRING(PyObject *text) nogil
    int _PyBytes_Resize(PyObject **text, Py_ssize_t size) except -1

cdef extern from *:
    """
    #include <charconv>
    #include <cmath>
    #include <cstring>

    // The shortest digits that read back as `value`, as Go writes them: an exponent below 1e-6 and from 1e21 on.
    static char *write_value(char *at, double value) noexcept
    {
        const double size = std::fabs(value);
        if (std::isnan(value)) {
            std::memcpy(at, "NaN", 3);
            return at + 3;
        }
        if (std::isinf(value)) {
            std::memcpy(at, value > 0 ? "+Inf" : "-Inf", 4);
            return at + 4;
        }
        if (size < 9007199254740992.0) {  // 2^53
            const long long whole = static_cast<long long>(value);
            if (static_cast<double>(whole) == value && (whole != 0 || !std::signbit(value)))
                return std::to_chars(at, at + 32, whole).ptr;
            const bool plain = size == 0 || size >= 1e-6;
            return std::to_chars(at, at + 48, value, plain ? std::chars_format::fixed : std::chars_format::scientific).ptr;
        }
        if (size >= 1e21)
            return std::to_chars(at, at + 48, value, std::chars_format::scientific).ptr;
        // A whole number of more digits than a double has: to_chars would write all of them, Go ends with zeros.
        char digits[32];
        const char *const end = std::to_chars(digits, digits + 32, size, std::chars_format::scientific).ptr;
        if (value < 0)
            *at++ = '-';
        int left = 0;
        for (const char *mark = end - 2; mark < end; ++mark)
            left = 10 * left + (*mark - '0');
        *at++ = digits[0];
        for (const char *digit = digits + 2; *digit >= '0' && *digit <= '9'; ++digit, --left)
            *at++ = *digit;
        for (; left > 0; --left)
            *at++ = '0';
        return at;
    }

    // Milliseconds as seconds, with three decimals or none.
    static char *write_time(char *at, int64_t stamp) noexcept
    {
        uint64_t size = stamp < 0 ? 0 - static_cast<uint64_t>(stamp) : static_cast<uint64_t>(stamp);
        if (stamp < 0)
            *at++ = '-';
        at = std::to_chars(at, at + 24, size / 1000).ptr;
        const unsigned rest = static_cast<unsigned>(size % 1000);
        if (rest) {
            *at++ = '.';
            *at++ = static_cast<char>('0' + rest / 100);
            *at++ = static_cast<char>('0' + rest / 10 % 10);
            *at++ = static_cast<char>('0' + rest % 10);
        }
        return at;
    }
    """
    char *write_value(char *at, double value) noexcept nogil
    char *write_time(char *at, int64_t stamp) noexcept nogil

cdef enum:
    OPENING = 32  # more than the longest `[time,"`: a time has at most 21 characters
    POINT = 64  # more than the longest `[time,"value"],`: a value has at most 25 characters


cdef inline char *write(char *at, const char *data, size_t size) noexcept nogil:
    memcpy(at, data, size)
    return at + size


cdef inline char *write_head(char *at, const char *heads, const int64_t[::1] ends, Py_ssize_t row) noexcept nogil:
    cdef int64_t start = ends[row - 1] if row else 0
    return write(at, heads + start, ends[row] - start)


cdef inline char *write_opening(char *at, int64_t stamp) noexcept nogil:
    """Write `[time,"`."""
    return write(write_time(write(at, b"[", 1), stamp), b',"', 2)


cdef inline char *write_point(char *at, const char *opening, size_t size, double value) noexcept nogil:
    """Write `[time,"value"],`."""
    return write(write_value(write(at, opening, size), value), b'"],', 3)


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
    const double[:, ::1] values,
    const uint8_t[:, ::1] present,
    bytes after,
):
    """See the twin."""
    cdef Py_ssize_t rows = values.shape[0], steps = values.shape[1], points = 0, row, step
    cdef const char *head = heads
    cdef char *openings
    cdef size_t *lengths
    cdef PyObject *text
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
        text = room_for(before, heads, after, rows, points)
        at = write(PyBytes_AS_STRING(text), before, len(before))
        with nogil:
            for step in range(steps):
                lengths[step] = write_opening(openings + step * OPENING, stamps[step]) - (openings + step * OPENING)
            for row in range(rows):
                at = write_head(at, head, ends, row)
                for step in range(steps):
                    if present[row, step]:
                        at = write_point(at, openings + step * OPENING, lengths[step], values[row, step])
                at = end_list(at, b"]},", 3)
    finally:
        free(lengths)
    return finished(text, at - 1 if rows else at, after)


def sample_rows(
    bytes before,
    bytes heads,
    const int64_t[::1] ends,
    const int64_t[::1] offsets,
    const int64_t[::1] stamps,
    const double[::1] values,
    bytes after,
):
    """See the twin."""
    cdef Py_ssize_t rows = offsets.shape[0] - 1, row, k
    cdef const char *head = heads
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
    at = write(PyBytes_AS_STRING(text), before, len(before))
    with nogil:
        for row in range(rows):
            at = write_head(at, head, ends, row)
            for k in range(offsets[row], offsets[row + 1]):
                at = write_point(at, opening, write_opening(opening, stamps[k]) - opening, values[k])
            at = end_list(at, b"]},", 3)
    return finished(text, at - 1 if rows else at, after)


def vector_rows(
    bytes before, bytes heads, const int64_t[::1] ends, int64_t stamp, const double[::1] values, bytes after
):
    """See the twin."""
    cdef Py_ssize_t rows = values.shape[0], row
    cdef const char *head = heads
    cdef char opening[OPENING]
    cdef size_t length = write_opening(opening, stamp) - opening
    cdef PyObject *text
    cdef char *at
    check_heads(heads, ends, rows)
    text = room_for(before, heads, after, rows, rows)
    at = write(PyBytes_AS_STRING(text), before, len(before))
    with nogil:
        for row in range(rows):
            at = write_point(write_head(at, head, ends, row), opening, length, values[row])
            at = end_list(at, b"},", 2)
    return finished(text, at - 1 if rows else at, after)
