# cython: language_level=3, boundscheck=True, wraparound=False, initializedcheck=True
"""The wire functions, compiled. `_wire_py` is their specification; this file says only how they are made fast.

Parsing works on pointers; every read is preceded by a check of the bytes left, by subtraction, on signed 64-bit positions.
No Python object is made per series while the label cache hits.
"""

import os
import threading

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport PyObject, Py_XDECREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy, memset

from tocsin.ingest import interface, messages
from tocsin.ingest.interface import CacheStats, Chunk, Rewritten, Verdict

IMPLEMENTATION = "compiled"

include "_wire_read.pxi"
include "_wire_cuts.pxi"
include "_wire_cache.pxi"
include "_wire_labels.pxi"
include "_wire_v2.pxi"
include "_wire_walk.pxi"


# --- rewriting ------------------------------------------------------------------------------------------------------

cdef extern from "Python.h":
    PyObject* new_bytes "PyBytes_FromStringAndSize" (const char*, Py_ssize_t) except NULL
    char* bytes_data "PyBytes_AS_STRING" (PyObject*)
    int resize_bytes "_PyBytes_Resize" (PyObject**, Py_ssize_t) except -1


# PERF: the cache is larger than the processor's, so what is needed of it is fetched some series before: at first the place in
# its table, then the entry that the place names.
cdef enum:
    AHEAD = 8
    CLOSER = 4
    KEPT_ROOM = 4194304     # bytes of scratch that a cache keeps between two bodies

cdef struct Coming:
    int64_t start           # of the labels, and of the series' message
    int64_t end             # of the labels
    uint64_t hash[4]


cdef class Pass:
    """One pass over a body: scratch space and what was collected."""

    cdef Buffer out         # the present chunk; its data is that of `block`
    cdef PyObject* block    # a bytes object under construction, or NULL
    cdef int64_t most, expected
    cdef Buffer labels, before, after, sample
    cdef uint8_t stamp[11]
    cdef int n_stamp
    cdef int64_t cut, series, samples, received
    cdef Coming coming[AHEAD]
    cdef int64_t looked_at, seen, used
    cdef list chunks, debug, touched, metadata

    cdef int begin(self, int64_t size, int64_t cut, object server_ms) except -1:
        """Prepare for a body of some size; the buffers keep the room that earlier bodies needed."""
        self.cut = cut
        self.most = 2 * size + 256
        self.abandon()
        self.chunks, self.debug, self.touched, self.metadata = [], [], [], []
        self.series = self.samples = self.received = 0
        self.looked_at = self.seen = self.used = 0
        self.n_stamp = 0
        if server_ms is not None:
            self.stamp[0] = 0x10
            self.n_stamp = 1 + put_varint(self.stamp + 1, <uint64_t> <int64_t> server_ms)
        return 0

    def __dealloc__(self):
        Py_XDECREF(self.block)
        free(self.labels.data)
        free(self.before.data)
        free(self.after.data)
        free(self.sample.data)

    cdef int64_t kept(self) noexcept:
        """Return the room of the buffers that stay."""
        return self.labels.room + self.before.room + self.after.room + self.sample.room

    cdef void abandon(self) noexcept:
        """Forget the present chunk."""
        Py_XDECREF(self.block)
        self.block = NULL
        memset(&self.out, 0, sizeof(self.out))

    cdef int extend(self, int64_t need) except -1:
        """Make room for so many further bytes in the present chunk.

        PERF: a chunk is written where it stays. Its room is what the one before it needed, as requests are often alike.
        """
        cdef int64_t room = max(2 * self.out.room, self.out.size + need, min(self.expected, self.most))
        if self.block == NULL:
            self.block = new_bytes(NULL, room)
        else:
            try:
                resize_bytes(&self.block, room)
            except MemoryError:
                self.abandon()
                raise
        self.out.data, self.out.room = <uint8_t*> bytes_data(self.block), room
        return 0

    cdef int split(self, const uint8_t* b, Series* s, Pieces* p) except -1:
        """Point to the parts of a series, gathered into scratch space when they are scattered."""
        cdef Field part
        cdef int64_t pos
        p.sample = NULL
        p.n_sample = 0
        if s.sample.tag >= 0:
            p.sample = b + s.sample.tag
            p.n_sample = s.sample.end - s.sample.tag
            if self.n_stamp:
                self.stamp_sample(b, &s.sample, p)
        if not s.scattered:
            p.labels, p.n_labels = b + s.field.start, s.labels_end - s.field.start
            p.before = b + s.labels_end
            p.n_before = (s.sample.tag if s.sample.tag >= 0 else s.field.end) - s.labels_end
            p.after = b + s.sample.end
            p.n_after = s.field.end - s.sample.end if s.sample.tag >= 0 else 0
            return 0
        self.labels.size = self.before.size = self.after.size = 0
        pos = s.field.start
        while pos < s.field.end:
            read_field(b, pos, s.field.end, &part)
            pos = part.end
            if part.number == 1:
                append(&self.labels, b + part.tag, part.end - part.tag)
            elif s.sample.tag < 0 or part.tag < s.sample.tag:
                append(&self.before, b + part.tag, part.end - part.tag)
            elif part.tag > s.sample.tag:
                append(&self.after, b + part.tag, part.end - part.tag)
        p.labels, p.n_labels = self.labels.data, self.labels.size
        p.before, p.n_before = self.before.data, self.before.size
        p.after, p.n_after = self.after.data, self.after.size
        return 0

    cdef int stamp_sample(self, const uint8_t* b, Field* sample, Pieces* p) except -1:
        """Replace the timestamp of a sample."""
        cdef int64_t pos = sample.start, behind = 0
        cdef Field part
        self.sample.size = 0
        reserve(&self.sample, sample.end - sample.start + 32)
        if plain_sample(b, sample.tag, sample.end, &behind):
            # PERF: the shape that every encoder writes, without a walk over its fields.
            put(&self.sample, b + sample.tag, 11)
            put(&self.sample, self.stamp, self.n_stamp)
            self.sample.data[1] = <uint8_t> (9 + self.n_stamp)
            p.sample, p.n_sample = self.sample.data, self.sample.size
            return 0
        self.sample.size = 11  # room for the tag and the longest length
        while pos < sample.end:
            read_field(b, pos, sample.end, &part)
            pos = part.end
            if part.number != 2:
                append(&self.sample, b + part.tag, part.end - part.tag)
        append(&self.sample, self.stamp, self.n_stamp)
        cdef uint8_t head[11]
        cdef int n_head
        head[0] = 0x12
        n_head = 1 + put_varint(head + 1, <uint64_t> (self.sample.size - 11))
        memcpy(self.sample.data + 11 - n_head, head, n_head)
        p.sample = self.sample.data + 11 - n_head
        p.n_sample = self.sample.size - 11 + n_head
        return 0

    cdef int add(self, Pieces* p, int64_t samples, Cuts* cuts, Decision verdict) except -1:
        """Count a series and append it unless it is dropped."""
        cdef int64_t size, start, pos = 0, body
        cdef const uint8_t* text = verdict.text
        cdef int i
        self.received += 1
        if verdict.touched == 0:
            self.touched.append(verdict)
        verdict.touched += 1
        if verdict.dropped and not verdict.debug:
            return 0
        size = p.n_labels + verdict.grown + p.n_before + p.n_sample + p.n_after
        for i in range(cuts.count):
            size -= cuts.length[i]
        start = self.out.size
        if self.out.room - start < size + 11:
            self.extend(size + 11)
        self.out.data[start] = 0x0A
        self.out.size += 1 + put_varint(self.out.data + start + 1, <uint64_t> size)
        body = self.out.size
        for i in range(cuts.count):
            put(&self.out, p.labels + pos, cuts.start[i] - pos)
            put(&self.out, text, verdict.length[i])
            text += verdict.length[i]
            pos = cuts.start[i] + cuts.length[i]
        put(&self.out, p.labels + pos, p.n_labels - pos)
        put(&self.out, p.before, p.n_before)
        put(&self.out, p.sample, p.n_sample)
        put(&self.out, p.after, p.n_after)
        if verdict.debug and len(self.debug) < MAX_DEBUG:
            self.debug.append(PyBytes_FromStringAndSize(<char*> self.out.data + body, size))
        if verdict.dropped:
            self.out.size = start
            return 0
        self.series += 1
        self.samples += samples
        if self.series == self.cut:
            self.flush()
        return 0

    cdef int flush(self) except -1:
        """Close the current chunk."""
        if self.series:
            self.expected = self.out.size + self.out.size // 8
            resize_bytes(&self.block, self.out.size)
            self.chunks.append(Chunk(<bytes> self.block, self.series, self.samples))
            self.abandon()
            self.series = self.samples = 0
        return 0

    cdef int run(self, const uint8_t* b, int64_t size, LabelCache cache) except -1:
        """Walk the body."""
        cdef int64_t pos = 0
        cdef Series series
        cdef Pieces pieces
        cdef Cuts cuts
        cdef Decision verdict
        cdef Coming* coming
        cdef const uint64_t* known
        while pos < size:
            self.look_ahead(b, pos, size, cache)
            read_field(b, pos, size, &series.field)
            pos = series.field.end
            if series.field.number == 1:
                if series.field.wire != W_BYTES:
                    fail(WireTypeError, series.field.tag)
                coming = self.arrived(series.field.start)
                walk_series(b, &series, coming.end if coming != NULL else series.field.start)
                self.split(b, &series, &pieces)
                known = NULL
                if coming != NULL and not series.scattered and series.labels_end == coming.end:
                    known = coming.hash
                verdict = cache.get(b, &series.field, pieces.labels, pieces.n_labels, known, &cuts)
                self.add(&pieces, series.samples, &cuts, verdict)
            elif series.field.number == 3:
                check_message(b, &series.field, M_METADATA)
                self.metadata.append(PyBytes_FromStringAndSize(<char*> b + series.field.tag, pos - series.field.tag))
            elif series.field.number == 4 or series.field.number == 5:
                fail(VersionError, series.field.tag)
        return self.flush()

    cdef void look_ahead(self, const uint8_t* b, int64_t pos, int64_t size, LabelCache cache) noexcept:
        """Look at the next entries as far as they have their usual form; raises nothing and decides nothing."""
        cdef Coming* coming
        cdef uint64_t length
        cdef int64_t end, behind
        cdef int i
        if self.looked_at < pos:
            self.looked_at, self.used = pos, self.seen
        while self.seen - self.used < AHEAD and size - self.looked_at > 5 and b[self.looked_at] == 0x0A:
            coming = &self.coming[self.seen % AHEAD]
            end, length = self.looked_at + 1, 0
            for i in range(4):
                length |= <uint64_t> (b[end] & 0x7F) << (7 * i)
                end += 1
                if b[end - 1] < 0x80:
                    break
            else:
                return
            coming.start = coming.end = end
            if length > <uint64_t> (size - end):
                return
            end += <int64_t> length
            behind = skip_label(b, coming.end, end)
            while behind:
                coming.end = behind
                behind = skip_label(b, coming.end, end)
            if coming.end - coming.start > MAX_KEY:
                return
            cache.look_ahead(b + coming.start, coming.end - coming.start, coming.hash)
            self.looked_at = end
            self.seen += 1
            if self.seen - self.used > CLOSER:
                cache.look_closer(self.coming[(self.seen - 1 - CLOSER) % AHEAD].hash)

    cdef Coming* arrived(self, int64_t start) noexcept:
        """Return what was seen ahead of the series whose message starts here, or NULL."""
        cdef Coming* coming = &self.coming[self.used % AHEAD]
        if self.used == self.seen or coming.start != start:
            return NULL
        self.used += 1
        return coming

    def settle(self):
        """Reset the counters kept in the verdicts; return what they counted."""
        cdef Decision verdict
        dropped, idents, registered = {}, {}, set()
        for verdict in self.touched:
            if verdict.dropped:
                dropped[verdict.drop] = dropped.get(verdict.drop, 0) + verdict.touched
            if verdict.ident:
                idents[verdict.ident] = idents.get(verdict.ident, 0) + verdict.touched
                if verdict.register:
                    registered.add(verdict.ident)
            verdict.touched = 0
        return dropped, idents, sorted(registered)


def rewrite(bytes body not None, LabelCache cache not None, server_ms=None, int64_t cut=0):
    """See `interface.Wire.rewrite`."""
    cdef Pass work
    with cache._lock:
        work = cache._scratch if cache._scratch is not None else Pass()
        cache._scratch = work if work.kept() <= KEPT_ROOM else None
        work.begin(PyBytes_GET_SIZE(body), cut, server_ms)
        try:
            work.run(<const uint8_t*> PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body), cache)
        finally:
            work.abandon()
            dropped, idents, registered = work.settle()
        return Rewritten(
            work.chunks, work.received, dropped, idents, registered, work.debug, b"".join(work.metadata),
            len(work.metadata),
        )


def skip(bytes chunk not None, int64_t offset, int64_t count):
    """See `interface.Wire.skip`."""
    cdef const uint8_t* b = <const uint8_t*> PyBytes_AS_STRING(chunk)
    cdef int64_t size = PyBytes_GET_SIZE(chunk)
    cdef int64_t samples = 0, pos
    cdef Field field, part
    if offset < 0:
        raise TruncatedError(offset)
    while count > 0:
        if offset >= size:
            raise TruncatedError(offset)
        read_field(b, offset, size, &field)
        pos = field.start
        while pos < field.end:
            read_field(b, pos, field.end, &part)
            pos = part.end
            samples += part.number == 2 or part.number == 4
        offset = field.end
        count -= 1
    return offset, samples


# --- decompression --------------------------------------------------------------------------------------------------

cdef class Room:
    """A bytes object under construction, as a buffer to write to."""

    cdef bytes data

    def __cinit__(self, Py_ssize_t size):
        self.data = PyBytes_FromStringAndSize(NULL, size)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, PyBytes_AS_STRING(self.data), PyBytes_GET_SIZE(self.data), False, flags)


def filled(Py_ssize_t size, write):
    """See `interface.Wire.filled`."""
    cdef Room room = Room(size)
    if write(room) != size:
        raise SizeError(0)
    return room.data


# --- encoding for other protocols -----------------------------------------------------------------------------------

def encode_labels(labels):
    """See `interface.Wire.encode_labels`."""
    cdef int64_t index = 0
    for name, value in labels:
        try:
            name.decode()
            value.decode()
        except UnicodeDecodeError:
            raise LabelError(index) from None
        if not name:
            raise LabelError(index)
        index += 1
    return b"".join([encode_pair(name, value) for name, value in labels])


cdef struct Cell:
    double value
    uint64_t bits


def encode_series(bytes labels not None, timestamps, values):
    """See `interface.Wire.encode_series`."""
    cdef int64_t count = len(timestamps), index, size
    cdef int64_t time_ms
    cdef uint64_t bits
    cdef double value
    cdef int n
    cdef uint8_t head[11]
    cdef Buffer out
    if count != len(values):
        raise SampleError(min(count, <int64_t> len(values)))
    memset(&out, 0, sizeof(out))
    try:
        reserve(&out, PyBytes_GET_SIZE(labels) + 32 * count + 16)
        out.size = 11  # room for the tag and the longest length
        put(&out, <const uint8_t*> PyBytes_AS_STRING(labels), PyBytes_GET_SIZE(labels))
        for index in range(count):
            try:
                time_ms = timestamps[index]
            except OverflowError:
                raise SampleError(index) from None
            value = values[index]
            memcpy(&bits, &value, 8)
            n = 0
            size = out.size + 2
            if bits:
                out.data[size] = 0x09
                memcpy(out.data + size + 1, &bits, 8)
                n = 9
            if time_ms:
                out.data[size + n] = 0x10
                n += 1 + put_varint(out.data + size + n + 1, <uint64_t> time_ms)
            out.data[out.size] = 0x12
            out.data[out.size + 1] = <uint8_t> n
            out.size = size + n
        head[0] = 0x0A
        n = 1 + put_varint(head + 1, <uint64_t> (out.size - 11))
        memcpy(out.data + 11 - n, head, n)
        return PyBytes_FromStringAndSize(<char*> out.data + 11 - n, out.size - 11 + n)
    finally:
        free(out.data)
