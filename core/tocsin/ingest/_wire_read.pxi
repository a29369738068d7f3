# Reading: varints, fields, validation. Errors carry the position of the item that could not be read.

TruncatedError, VarintError, TagError = interface.TruncatedError, interface.VarintError, interface.TagError
WireTypeError, LabelCountError, VersionError = interface.WireTypeError, interface.LabelCountError, interface.VersionError
SymbolError, SizeError = interface.SymbolError, interface.SizeError
LabelError, SampleError = interface.LabelError, interface.SampleError

cdef int64_t MAX_LABELS = interface.MAX_LABELS
cdef int64_t MAX_DEBUG = interface.MAX_DEBUG_SERIES

cdef enum:
    W_VARINT = 0
    W_FIXED64 = 1
    W_BYTES = 2
    W_FIXED32 = 5
    K_VARINT = 1
    K_DOUBLE = 2
    K_STRING = 3
    K_VARINTS = 4
    K_DOUBLES = 5
    K_MESSAGE = 16          # and above: the number of the message
    MAX_FIELD = 17
    N_MESSAGES = 10

cdef uint8_t KINDS[N_MESSAGES][MAX_FIELD]


def _number(schema):
    """Return the number of a message, which is its place in `messages.MESSAGES`."""
    return next(index for index, known in enumerate(messages.MESSAGES) if known is schema)


cdef int _load() except -1:
    """Flatten the message tables."""
    assert len(messages.MESSAGES) == N_MESSAGES
    memset(KINDS, 0, sizeof(KINDS))
    for index, schema in enumerate(messages.MESSAGES):
        for number, kind in schema.items():
            KINDS[index][number] = K_MESSAGE + _number(kind) if isinstance(kind, dict) else int(kind)
    return 0


_load()
cdef int M_SERIES = _number(messages.SERIES)
cdef int M_METADATA = _number(messages.METADATA)
cdef int M_SERIES_V2 = _number(messages.SERIES_V2)


cdef struct Field:
    int64_t tag
    int64_t start
    int64_t end
    uint32_t number
    int wire


cdef int fail(object error, int64_t offset) except -1:
    raise error(offset)


cdef int64_t varint_slow(const uint8_t* b, int64_t pos, int64_t end, uint64_t* value) except -1:
    cdef int64_t i, left = end - pos
    cdef uint64_t result = 0
    cdef uint8_t byte
    for i in range(10):
        if left <= i:
            fail(TruncatedError, pos)
        byte = b[pos + i]
        if i == 9 and byte > 1:
            fail(VarintError, pos)
        result |= <uint64_t> (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            value[0] = result
            return pos + i + 1
    fail(VarintError, pos)


cdef inline int64_t read_varint(const uint8_t* b, int64_t pos, int64_t end, uint64_t* value) except -1:
    """Read a varint; return the position behind it."""
    if pos < end and b[pos] < 0x80:
        value[0] = b[pos]
        return pos + 1
    return varint_slow(b, pos, end, value)


cdef inline int read_field(const uint8_t* b, int64_t pos, int64_t end, Field* f) except -1:
    """Read the field at a position."""
    cdef uint64_t tag = 0, size = 0
    f.tag = pos
    pos = read_varint(b, pos, end, &tag)
    if not 0 < tag >> 3 < <uint64_t> 1 << 29:
        fail(TagError, f.tag)
    f.number = <uint32_t> (tag >> 3)
    f.wire = tag & 7
    if f.wire == W_BYTES:
        f.start = read_varint(b, pos, end, &size)
        if size > <uint64_t> (end - f.start):
            fail(TruncatedError, f.start)
        f.end = f.start + <int64_t> size
        return 0
    f.start = pos
    if f.wire == W_VARINT:
        f.end = read_varint(b, pos, end, &size)
        return 0
    if f.wire != W_FIXED64 and f.wire != W_FIXED32:
        fail(WireTypeError, f.tag)
    size = 8 if f.wire == W_FIXED64 else 4
    if end - pos < <int64_t> size:
        fail(TruncatedError, pos)
    f.end = pos + <int64_t> size
    return 0


cdef int check_field(const uint8_t* b, Field* f, int message) except -1:
    """Validate a field of a message; one that the message does not know is well-formed already."""
    cdef int kind
    cdef int64_t pos
    cdef uint64_t value
    if f.number >= MAX_FIELD:
        return 0
    kind = KINDS[message][f.number]
    if kind == 0:
        return 0
    if kind >= K_MESSAGE:
        return check_message(b, f, kind - K_MESSAGE)
    if kind == K_VARINTS and f.wire == W_BYTES:
        pos = f.start
        while pos < f.end:
            pos = read_varint(b, pos, f.end, &value)
        return 0
    if kind == K_DOUBLES and f.wire == W_BYTES:
        if (f.end - f.start) % 8:
            fail(TruncatedError, f.end - (f.end - f.start) % 8)
        return 0
    if kind == K_STRING:
        kind = W_BYTES
    elif kind == K_VARINT or kind == K_VARINTS:
        kind = W_VARINT
    else:
        kind = W_FIXED64
    if f.wire != kind:
        fail(WireTypeError, f.tag)
    return 0


cdef int check_message(const uint8_t* b, Field* f, int message) except -1:
    """Validate a field that holds a message."""
    cdef int64_t pos = f.start
    cdef Field part
    if f.wire != W_BYTES:
        fail(WireTypeError, f.tag)
    while pos < f.end:
        read_field(b, pos, f.end, &part)
        check_field(b, &part, message)
        pos = part.end
    return 0


# Writing.

cdef struct Buffer:
    uint8_t* data
    int64_t size
    int64_t room


cdef int grow(Buffer* buffer, int64_t need) except -1:
    cdef int64_t room = max(buffer.room * 2, buffer.size + need, 256)
    cdef uint8_t* data = <uint8_t*> realloc(buffer.data, room)
    if data == NULL:
        raise MemoryError
    buffer.data = data
    buffer.room = room
    return 0


cdef inline int reserve(Buffer* buffer, int64_t need) except -1:
    """Make room for so many further bytes."""
    if buffer.room - buffer.size < need:
        return grow(buffer, need)
    return 0


cdef inline void put(Buffer* buffer, const void* data, int64_t size) noexcept:
    """Append where room is reserved."""
    if size:
        memcpy(buffer.data + buffer.size, data, size)
        buffer.size += size


cdef inline int append(Buffer* buffer, const void* data, int64_t size) except -1:
    reserve(buffer, size)
    put(buffer, data, size)
    return 0


cdef inline int put_varint(uint8_t* out, uint64_t value) noexcept:
    """Write a varint; return its length, at most 10."""
    cdef int i = 0
    while value > 0x7F:
        out[i] = <uint8_t> (value & 0x7F | 0x80)
        value >>= 7
        i += 1
    out[i] = <uint8_t> value
    return i + 1


cdef inline int append_field(Buffer* buffer, uint8_t tag, const void* data, int64_t size) except -1:
    """Append a length-delimited field."""
    reserve(buffer, size + 11)
    buffer.data[buffer.size] = tag
    buffer.size += 1 + put_varint(buffer.data + buffer.size + 1, <uint64_t> size)
    put(buffer, data, size)
    return 0
