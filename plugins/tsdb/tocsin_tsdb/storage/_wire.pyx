# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The remote-write decoder, compiled. `_wire_py.py` is its twin and its documentation; both pass the same tests."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

cdef enum:
    VARINT = 0
    FIXED64 = 1
    LENGTH = 2
    FIXED32 = 5


cdef struct Field:
    uint64_t number
    int kind
    const uint8_t* begin
    const uint8_t* start
    const uint8_t* stop


cdef int read_varint(const uint8_t** at, const uint8_t* end, uint64_t* out) except -1:
    cdef const uint8_t* p = at[0]
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while True:
        if p >= end or shift > 63:
            raise ValueError("truncated or overlong varint")
        byte = p[0]
        p += 1
        if shift == 63 and byte > 1:
            raise ValueError("truncated or overlong varint")
        value |= (<uint64_t>(byte & 0x7F)) << shift
        if byte < 0x80:
            break
        shift += 7
    at[0] = p
    out[0] = value
    return 0


cdef int next_field(const uint8_t** at, const uint8_t* end, Field* field) except -1:
    cdef uint64_t tag, size
    field.begin = at[0]
    read_varint(at, end, &tag)
    field.number = tag >> 3
    field.kind = tag & 7
    if field.number == 0 or field.number >= 1 << 29:
        raise ValueError("field number out of range")
    field.start = at[0]
    if field.kind == VARINT:
        read_varint(at, end, &size)
    elif field.kind == FIXED64 or field.kind == FIXED32:
        size = 8 if field.kind == FIXED64 else 4
        if <uint64_t>(end - at[0]) < size:
            raise ValueError("field runs past the end of its message")
        at[0] += size
    elif field.kind == LENGTH:
        read_varint(at, end, &size)
        field.start = at[0]
        if <uint64_t>(end - at[0]) < size:
            raise ValueError("field runs past the end of its message")
        at[0] += size
    else:
        raise ValueError(f"unsupported wire type {field.kind}")
    field.stop = at[0]
    return 0


cdef class _Output:
    cdef int32_t* sids
    cdef int64_t* times
    cdef uint64_t* values
    cdef Py_ssize_t size, room
    cdef dict ids
    cdef list unknown, metadata
    cdef Py_ssize_t ignored

    def __cinit__(self, dict ids, Py_ssize_t room):
        self.ids = ids
        self.unknown = []
        self.metadata = []
        self.room = room
        self.sids = <int32_t*> malloc(room * sizeof(int32_t))
        self.times = <int64_t*> malloc(room * sizeof(int64_t))
        self.values = <uint64_t*> malloc(room * sizeof(uint64_t))
        if not self.sids or not self.times or not self.values:
            raise MemoryError()

    def __dealloc__(self):
        free(self.sids)
        free(self.times)
        free(self.values)

    cdef int grow(self) except -1:
        cdef Py_ssize_t room = self.room * 2
        cdef void* block = realloc(self.sids, room * sizeof(int32_t))
        if not block:
            raise MemoryError()
        self.sids = <int32_t*> block
        block = realloc(self.times, room * sizeof(int64_t))
        if not block:
            raise MemoryError()
        self.times = <int64_t*> block
        block = realloc(self.values, room * sizeof(uint64_t))
        if not block:
            raise MemoryError()
        self.values = <uint64_t*> block
        self.room = room
        return 0

    cdef int sample(self, const uint8_t* at, const uint8_t* end) except -1:
        cdef Field field
        cdef uint64_t raw = 0, bits = 0
        while at < end:
            next_field(&at, end, &field)
            if field.number == 1 and field.kind == FIXED64:
                memcpy(&bits, field.start, 8)
            elif field.number == 2 and field.kind == VARINT:
                read_varint(&field.start, field.stop, &raw)
        if self.size == self.room:
            self.grow()
        self.times[self.size] = <int64_t> raw
        self.values[self.size] = bits
        self.size += 1
        return 0

    cdef int series(self, const uint8_t* at, const uint8_t* end) except -1:
        cdef Field field
        cdef const uint8_t* key_start = NULL
        cdef const uint8_t* key_stop = NULL
        cdef bytes key = None
        cdef Py_ssize_t first = self.size, i
        cdef int32_t sid
        while at < end:
            next_field(&at, end, &field)
            if field.kind != LENGTH:
                continue
            if field.number == 1:
                if key is not None:
                    key += PyBytes_FromStringAndSize(<const char*> field.begin, field.stop - field.begin)
                elif key_start == NULL or key_stop == field.begin:
                    if key_start == NULL:
                        key_start = field.begin
                    key_stop = field.stop
                else:
                    key = PyBytes_FromStringAndSize(<const char*> key_start, key_stop - key_start)
                    key += PyBytes_FromStringAndSize(<const char*> field.begin, field.stop - field.begin)
            elif field.number == 2:
                self.sample(field.start, field.stop)
            elif field.number == 3 or field.number == 4:
                self.ignored += 1
        if self.size == first:
            return 0
        if key is None:
            key = PyBytes_FromStringAndSize(<const char*> key_start, key_stop - key_start)
        sid = self.identify(key)
        for i in range(first, self.size):
            self.sids[i] = sid
        return 0

    cdef int32_t identify(self, bytes key):
        cdef PyObject* found = PyDict_GetItem(self.ids, key)
        if found != NULL:
            return <int32_t> <object> found
        self.unknown.append(key)
        return <int32_t> -len(self.unknown)


def decode(bytes body not None, dict ids not None):
    """See the twin."""
    cdef const uint8_t* at = <const uint8_t*> PyBytes_AS_STRING(body)
    cdef const uint8_t* end = at + PyBytes_GET_SIZE(body)
    cdef Field field
    cdef _Output out = _Output(ids, (end - at) // 64 + 16)
    while at < end:
        next_field(&at, end, &field)
        if field.kind != LENGTH:
            continue
        if field.number == 1:
            out.series(field.start, field.stop)
        elif field.number == 3:
            out.metadata.append(PyBytes_FromStringAndSize(<const char*> field.start, field.stop - field.start))
    return (
        PyBytes_FromStringAndSize(<const char*> out.sids, out.size * sizeof(int32_t)),
        PyBytes_FromStringAndSize(<const char*> out.times, out.size * sizeof(int64_t)),
        PyBytes_FromStringAndSize(<const char*> out.values, out.size * sizeof(uint64_t)),
        out.unknown,
        out.metadata,
        out.ignored,
    )


def split_labels(bytes key not None):
    """See the twin."""
    cdef const uint8_t* at = <const uint8_t*> PyBytes_AS_STRING(key)
    cdef const uint8_t* end = at + PyBytes_GET_SIZE(key)
    cdef Field field
    cdef list parts = []
    while at < end:
        next_field(&at, end, &field)
        parts.append(PyBytes_FromStringAndSize(<const char*> field.start, field.stop - field.start))
    return parts


def labels_of(list keys not None, dict texts not None):
    """See the twin."""
    cdef list out = []
    cdef list labels
    cdef Field field
    cdef bytes key
    cdef const uint8_t* at
    cdef const uint8_t* end
    for key in keys:
        at = <const uint8_t*> PyBytes_AS_STRING(key)
        end = at + PyBytes_GET_SIZE(key)
        labels = []
        while at < end:
            next_field(&at, end, &field)
            labels.append(texts[PyBytes_FromStringAndSize(<const char*> field.start, field.stop - field.start)])
        out.append(tuple(labels))
    return out


def admit(
    const int32_t[::1] sids,
    const int64_t[::1] times,
    const int64_t[::1] values,
    int64_t[::1] last_time,
    int64_t[::1] last_value,
    uint8_t[::1] verdicts,
    tuple bounds,
):
    """See the twin."""
    cdef int64_t head_max = bounds[0]
    cdef int64_t in_order_window = bounds[1]
    cdef int64_t window = bounds[2]
    cdef int64_t floor = bounds[3]
    cdef int64_t limit = bounds[4]
    cdef int64_t widest = max(in_order_window, window)
    cdef int64_t time, last
    cdef int32_t sid
    cdef Py_ssize_t i
    for i in range(sids.shape[0]):
        sid = sids[i]
        time = times[i]
        if time > limit or time < floor:
            verdicts[i] = 5
            continue
        last = last_time[sid]
        if time > last and time >= head_max - widest:
            verdicts[i] = 0
            last_time[sid] = time
            last_value[sid] = values[i]
            if time > head_max:
                head_max = time
        elif time == last:
            verdicts[i] = 2 if last_value[sid] == values[i] else 3
        elif time >= head_max - window:
            verdicts[i] = 1
        else:
            verdicts[i] = 4
    return head_max
