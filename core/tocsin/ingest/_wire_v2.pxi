# Remote write 2.0: the same series with their strings in a table. Written out as 1.0.

cdef tuple SUFFIXES = (b"_bucket", b"_count", b"_sum")


cdef struct Text:
    const uint8_t* data
    int64_t size


cdef class Translation:
    """One 2.0 body on its way to 1.0."""

    cdef const uint8_t* b
    cdef int64_t size, left
    cdef Text* symbols
    cdef uint64_t count, room
    cdef uint64_t* refs         # scratch: the label references of one message
    cdef int64_t n_refs, refs_room
    cdef Buffer out, part, series
    cdef dict described

    def __cinit__(self, bytes body, int64_t limit):
        self.b = <const uint8_t*> PyBytes_AS_STRING(body)
        self.size = PyBytes_GET_SIZE(body)
        self.left = limit
        self.described = {}

    def __dealloc__(self):
        free(self.symbols)
        free(self.refs)
        free(self.out.data)
        free(self.part.data)
        free(self.series.data)

    cdef int load_symbols(self) except -1:
        """Read the symbol table, which may stand anywhere in the body."""
        cdef int64_t pos = 0
        cdef Field field
        while pos < self.size:
            read_field(self.b, pos, self.size, &field)
            pos = field.end
            if field.number <= 3:
                fail(VersionError, field.tag)
            if field.number <= 5 and field.wire != W_BYTES:
                fail(WireTypeError, field.tag)
            if field.number != 4:
                continue
            if self.count == 0 and field.end > field.start:
                fail(SymbolError, field.tag)
            if self.count == self.room:
                self.room = max(self.room * 2, <uint64_t> 256)
                grown = <Text*> realloc(self.symbols, self.room * sizeof(Text))
                if grown == NULL:
                    raise MemoryError
                self.symbols = grown
            self.symbols[self.count].data = self.b + field.start
            self.symbols[self.count].size = field.end - field.start
            self.count += 1
        return 0

    cdef int spend(self, int64_t size, int64_t offset) except -1:
        """Count expanded bytes."""
        self.left -= size
        if self.left < 0:
            fail(SizeError, offset)
        return 0

    cdef int load_refs(self, Field* field) except -1:
        """Read the label references of a valid message and count what they expand to."""
        cdef int64_t pos = field.start, inner, start, total = 0
        cdef Field part
        cdef uint64_t ref = 0
        self.n_refs = 0
        while pos < field.end:
            read_field(self.b, pos, field.end, &part)
            pos = part.end
            if part.number != 1:
                continue
            inner = part.start
            while inner < part.end:
                start = inner
                inner = read_varint(self.b, inner, part.end, &ref)
                if ref >= self.count:
                    fail(SymbolError, start)
                if self.n_refs == self.refs_room:
                    self.refs_room = max(self.refs_room * 2, <int64_t> 64)
                    grown = <uint64_t*> realloc(self.refs, self.refs_room * sizeof(uint64_t))
                    if grown == NULL:
                        raise MemoryError
                    self.refs = grown
                self.refs[self.n_refs] = ref
                self.n_refs += 1
                total += self.symbols[ref].size
        if self.n_refs % 2:
            fail(SymbolError, field.tag)
        if self.n_refs > 2 * MAX_LABELS:
            fail(LabelCountError, field.tag)
        return self.spend(total, field.tag)

    cdef int put_labels(self, Buffer* out) except -1:
        """Append the labels of the references read last."""
        cdef int64_t i, size
        cdef Text name, value
        cdef uint8_t scratch[11]
        for i in range(0, self.n_refs, 2):
            name, value = self.symbols[self.refs[i]], self.symbols[self.refs[i + 1]]
            size = 0
            if name.size:
                size += 1 + put_varint(scratch, name.size) + name.size
            if value.size:
                size += 1 + put_varint(scratch, value.size) + value.size
            reserve(out, size + 11)
            out.data[out.size] = 0x0A
            out.size += 1 + put_varint(out.data + out.size + 1, size)
            if name.size:
                append_field(out, 0x0A, name.data, name.size)
            if value.size:
                append_field(out, 0x12, value.data, value.size)
        return 0

    cdef bytes name(self):
        """Return the metric name among the references read last."""
        cdef int64_t i
        cdef Text text
        for i in range(0, self.n_refs, 2):
            text = self.symbols[self.refs[i]]
            if text.size == 8 and memcmp(text.data, b"__name__", 8) == 0:
                text = self.symbols[self.refs[i + 1]]
                return PyBytes_FromStringAndSize(<char*> text.data, text.size)
        return b""

    cdef int put_exemplar(self, Field* field) except -1:
        """Append an exemplar with its labels written out."""
        cdef int64_t pos = field.start
        cdef Field part
        self.load_refs(field)
        self.part.size = 0
        self.put_labels(&self.part)
        while pos < field.end:
            read_field(self.b, pos, field.end, &part)
            pos = part.end
            if part.number != 1:
                append(&self.part, self.b + part.tag, part.end - part.tag)
        return append_field(&self.series, 0x1A, self.part.data, self.part.size)

    cdef bytes symbol(self, Field* part):
        """Return the symbol that a scalar field refers to."""
        cdef uint64_t ref = 0
        read_varint(self.b, part.start, part.end, &ref)
        if ref >= self.count:
            fail(SymbolError, part.start)
        return PyBytes_FromStringAndSize(<char*> self.symbols[ref].data, self.symbols[ref].size)

    cdef int describe(self, Field* field, bytes name) except -1:
        """Turn the metadata of a series into that of its family, the first of a request."""
        cdef int64_t pos = field.start
        cdef Field part
        cdef uint64_t kind = 0
        cdef bytes help_ = b"", unit = b""
        cdef uint8_t scratch[11]
        while pos < field.end:
            read_field(self.b, pos, field.end, &part)
            pos = part.end
            if part.number == 1:
                read_varint(self.b, part.start, part.end, &kind)
            elif part.number == 3:
                help_ = self.symbol(&part)
            elif part.number == 4:
                unit = self.symbol(&part)
        if kind == 3 or kind == 4 or kind == 5:
            name = next((name[: -len(suffix)] for suffix in SUFFIXES if name.endswith(suffix)), name)
        if not name or name in self.described or not (kind or help_ or unit):
            return 0
        self.spend(len(name) + len(help_) + len(unit), field.tag)
        message = b""
        if kind:
            scratch[0] = 0x08
            message = PyBytes_FromStringAndSize(<char*> scratch, 1 + put_varint(scratch + 1, kind))
        message += encode_text(0x12, name) + encode_text(0x22, help_) + encode_text(0x2A, unit)
        self.described[name] = encode_text(0x1A, message)
        return 0

    cdef int put_series(self, Field* field) except -1:
        """Append a series."""
        cdef int64_t pos = field.start
        cdef Field part
        cdef bytes name
        check_message(self.b, field, M_SERIES_V2)
        self.series.size = 0
        self.load_refs(field)
        self.put_labels(&self.series)
        name = self.name()
        while pos < field.end:
            read_field(self.b, pos, field.end, &part)
            pos = part.end
            if part.number == 2:
                append_field(&self.series, 0x12, self.b + part.start, part.end - part.start)
            elif part.number == 3:
                append_field(&self.series, 0x22, self.b + part.start, part.end - part.start)
            elif part.number == 4:
                self.put_exemplar(&part)
            elif part.number == 5:
                self.describe(&part, name)
        return append_field(&self.out, 0x0A, self.series.data, self.series.size)

    cdef bytes run(self):
        cdef int64_t pos = 0
        cdef Field field
        self.load_symbols()
        while pos < self.size:
            read_field(self.b, pos, self.size, &field)
            pos = field.end
            if field.number == 5:
                self.put_series(&field)
        return PyBytes_FromStringAndSize(<char*> self.out.data, self.out.size) + b"".join(self.described.values())


def tally(bytes chunk not None):
    """See `interface.Wire.tally`."""
    cdef const uint8_t* b = <const uint8_t*> PyBytes_AS_STRING(chunk)
    cdef int64_t size = PyBytes_GET_SIZE(chunk)
    cdef int64_t pos = 0, inner, samples = 0, exemplars = 0, histograms = 0
    cdef Field field, part
    while pos < size:
        read_field(b, pos, size, &field)
        pos = field.end
        if field.number != 1:
            continue
        if field.wire != W_BYTES:
            fail(WireTypeError, field.tag)
        inner = field.start
        while inner < field.end:
            read_field(b, inner, field.end, &part)
            inner = part.end
            if part.number == 2:
                samples += 1
            elif part.number == 3:
                exemplars += 1
            elif part.number == 4:
                histograms += 1
    return samples, exemplars, histograms


def decode_v2(bytes body not None, int64_t limit):
    """See `interface.Wire.decode_v2`."""
    return Translation(body, limit).run()
