# The label cache. Its keys are not stored: an entry holds a 256-bit hash of the raw label bytes and how to cut them.
#
# The hash is the Toeplitz construction over NH (UMAC, RFC 4418) with 64-bit words and a random key per cache: for any two
# different label encodings of equal length the probability, over the key, that they collide is at most 2^-128, whoever
# chose them. One entry is one cache line, so 200,000 series cost some 17 MB instead of their labels twice.
#
# The new labels are kept as cuts into the raw ones (see `_wire_cuts.pxi`). Series of one host share the texts of theirs.

from posix.mman cimport MAP_ANONYMOUS, MAP_FAILED, MAP_NORESERVE, MAP_PRIVATE, PROT_READ, PROT_WRITE, mmap, munmap

cdef extern from *:
    """
    typedef unsigned __int128 tocsin_uint128;
    #define tocsin_prefetch(address) __builtin_prefetch(address)
    """
    ctypedef unsigned long long uint128_t "tocsin_uint128"
    void prefetch "tocsin_prefetch" (const void* address) noexcept nogil

cdef enum:
    MAX_KEY = 8192
    N_KEYS = 1028           # words: MAX_KEY / 8, and 2 for the second row, rounded up
    LINE = 64
    FIRST_PLACES = 1024
    MOST_STALE = 1000       # verdicts kept only because entries point to them, before these are swept

cdef uint64_t NUMBER = 0xFFFFFFFF   # the part of a place that is the number of an entry

assert interface.MAX_CACHED_LABELS == MAX_KEY


cdef struct Entry:
    uint64_t hash[4]
    void* verdict           # borrowed from the generation's dictionary
    int32_t size            # of the key; -1 when the entry has moved to the young generation
    int32_t count           # of the cuts
    Places places

assert sizeof(Entry) == LINE


cdef inline void hash_labels(const uint8_t* data, int64_t size, const uint64_t* key, uint64_t* out) noexcept:
    """Hash at most MAX_KEY bytes."""
    cdef uint128_t first = 0, second = 0
    cdef uint64_t a, b
    cdef uint64_t tail[2]
    cdef int64_t i, words = size // 16 * 2
    for i in range(0, words, 2):
        memcpy(&a, data + 8 * i, 8)
        memcpy(&b, data + 8 * i + 8, 8)
        first += <uint128_t> (a + key[i]) * (b + key[i + 1])
        second += <uint128_t> (a + key[i + 2]) * (b + key[i + 3])
    if size % 16:
        tail[0] = tail[1] = 0
        memcpy(tail, data + 8 * words, size % 16)
        first += <uint128_t> (tail[0] + key[words]) * (tail[1] + key[words + 1])
        second += <uint128_t> (tail[0] + key[words + 2]) * (tail[1] + key[words + 3])
    memcpy(out, &first, 16)
    memcpy(out + 2, &second, 16)


cdef inline uint64_t first_place(const uint64_t* h) noexcept:
    """Return where the search for a hash begins, before it is masked."""
    return (h[0] ^ h[1] ^ (h[2] << 17)) * <uint64_t> 0x9E3779B97F4A7C15 >> 20


cdef inline uint64_t mark(const uint64_t* h) noexcept:
    """Return the part of a hash that is kept in its place, so that few entries are looked at in vain."""
    return (h[2] ^ h[3]) & ~NUMBER


cdef class Decision:
    """A verdict and the texts it inserts; shared by all label sets that are treated alike."""

    cdef tuple key
    cdef const uint8_t* text            # the texts of all cuts, one after another
    cdef int32_t length[MOST_CUTS]
    cdef int count
    cdef int64_t grown, touched
    cdef uint64_t home                  # number of the latest generation that adopted it
    cdef readonly str ident, drop
    cdef bint dropped, debug, register, stale

    def __init__(self, tuple key):
        """Make a verdict of (texts, their sizes, ident, drop, debug, register)."""
        cdef bytes text
        cdef int i
        self.key = key
        text, sizes, self.ident, self.drop, self.debug, self.register = key
        self.dropped = bool(self.drop)
        self.text, self.grown = <const uint8_t*> PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)
        self.count = len(sizes)
        for i in range(self.count):
            self.length[i] = sizes[i]


cdef class Generation:
    """Entries in the order in which they came, a table of where they are, and the verdicts they refer to.

    PERF: senders repeat themselves in the same order, so the entries of a request lie behind each other and memory is
    read in long runs; only the table, a tenth of the whole, is read here and there. Nothing is moved to make room: the
    addresses for all entries are reserved at the beginning, and a page takes memory when the first of its entries comes.
    """

    cdef Entry* entries
    cdef uint64_t* table    # open addressing: mark and number of an entry, counted from 1; 0 is a free place
    cdef uint64_t mask
    cdef int64_t most, used, moved
    cdef uint64_t number    # above 0
    cdef dict verdicts
    cdef list stale

    def __cinit__(self, uint64_t number, int64_t most):
        """Make a generation of at most so many entries."""
        self.number, self.most = number, most
        self.verdicts, self.stale = {}, []
        self.used = self.moved = 0
        cdef void* memory = mmap(
            NULL, most * LINE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0
        )
        if memory == MAP_FAILED:
            raise MemoryError
        self.entries = <Entry*> memory
        self.arrange(FIRST_PLACES)

    def __dealloc__(self):
        free(self.table)
        if self.entries != NULL:
            munmap(self.entries, self.most * LINE)

    cdef int arrange(self, uint64_t places) except -1:
        """Make a new table, whose size is a power of two; what is stale or has moved is left out."""
        cdef uint64_t* table = <uint64_t*> calloc(places, sizeof(uint64_t))
        cdef uint64_t i
        cdef int64_t n, kept = 0
        cdef Entry* entry
        if table == NULL:
            raise MemoryError
        free(self.table)
        self.table, self.mask = table, places - 1
        for n in range(self.used):
            entry = &self.entries[n]
            if entry.size < 0 or (<Decision> entry.verdict).stale:
                continue
            if kept < n:
                self.entries[kept] = entry[0]
            kept += 1
            i = first_place(entry.hash) & self.mask
            while table[i]:
                i = (i + 1) & self.mask
            table[i] = mark(entry.hash) | <uint64_t> kept
        self.used, self.moved = kept, 0
        self.stale = []
        return 0

    cdef Entry* find(self, const Entry* wanted, uint64_t* place) noexcept:
        """Return the entry with a key, or NULL; set where its number is, or belongs."""
        cdef uint64_t i = first_place(wanted.hash), marked = mark(wanted.hash), there
        cdef Entry* entry
        while True:
            i &= self.mask
            there = self.table[i]
            if there == 0 or there & ~NUMBER == marked:
                place[0] = i
                if there == 0:
                    return NULL
                entry = &self.entries[(there & NUMBER) - 1]
                if entry.size == wanted.size and memcmp(entry.hash, wanted.hash, sizeof(entry.hash)) == 0:
                    return entry
            i += 1

    cdef Entry* insert(self, const Entry* entry) except NULL:
        """Add an entry or replace the one with its key; return where it is."""
        cdef uint64_t place = 0
        cdef Entry* found = self.find(entry, &place)
        if found == NULL:
            if self.used == self.most:
                raise MemoryError  # it is the cache that makes room
            if <uint64_t> (self.used + 1) * 4 > (self.mask + 1) * 3:
                self.arrange((self.mask + 1) * 2)
                self.find(entry, &place)
            found = &self.entries[self.used]
            self.used += 1
            self.table[place] = mark(entry.hash) | <uint64_t> self.used
        found[0] = entry[0]
        return found

    cdef Decision adopt(self, Decision verdict):
        """Return this generation's own copy of a verdict."""
        if verdict.home != self.number:
            verdict = <Decision> self.verdicts.setdefault(verdict.key, verdict)
            verdict.home = self.number
        return verdict

    cdef Decision make(self, tuple key):
        """Return the verdict with a key."""
        verdict = self.verdicts.get(key)
        return self.adopt(Decision(key)) if verdict is None else <Decision> verdict

    cdef int invalidate(self, object idents) except -1:
        cdef Decision verdict
        for verdict in [verdict for verdict in self.verdicts.values() if (<Decision> verdict).ident in idents]:
            del self.verdicts[verdict.key]
            verdict.stale = True
            self.stale.append(verdict)  # entries still point to it
        if len(self.stale) > MOST_STALE:
            self.arrange(self.mask + 1)


cdef class LabelCache:
    """See `interface.LabelCacheLike`."""

    cdef object _resolve
    cdef object _lock
    cdef int64_t _half, _hits, _misses, _evictions
    cdef uint64_t _generations
    cdef Generation _young, _old
    cdef LabelProgram _program      # of a resolver that can be compiled
    cdef uint64_t _key[N_KEYS]
    cdef object _scratch    # a Pass; used under the lock

    def __init__(self, resolve, int64_t capacity):
        cdef bytes key = os.urandom(sizeof(self._key))
        memcpy(self._key, PyBytes_AS_STRING(key), sizeof(self._key))
        self._resolve = resolve
        self._program = LabelProgram(resolve) if type(resolve) is LabelWork else None
        self._half = max(1, capacity // 2)
        self._generations = 0
        self._young, self._old = self.generation(), self.generation()
        self._lock = threading.Lock()

    def clear(self):
        """Forget everything: the rules have changed."""
        with self._lock:
            self._young, self._old = self.generation(), self.generation()
            if self._program is not None:
                self._program.forget()

    def invalidate(self, idents):
        """Forget the verdicts that name one of these hosts: their targets have changed."""
        with self._lock:
            self._young.invalidate(idents)
            self._old.invalidate(idents)
            if self._program is not None:
                self._program.invalidate(idents)

    def stats(self):
        """Return the counters."""
        with self._lock:
            entries = self._young.used + self._old.used - self._old.moved
            return CacheStats(self._hits, self._misses, self._evictions, entries)

    cdef Generation generation(self):
        self._generations += 1
        return Generation(self._generations, self._half)

    cdef void look_ahead(self, const uint8_t* raw, int64_t size, uint64_t* h) noexcept:
        """Hash labels that will be asked for, and have their place in the table fetched from memory meanwhile."""
        hash_labels(raw, size, self._key, h)
        prefetch(&self._young.table[first_place(h) & self._young.mask])

    cdef void look_closer(self, const uint64_t* h) noexcept:
        """Have the entry fetched of labels that will be asked for soon."""
        cdef uint64_t there = self._young.table[first_place(h) & self._young.mask]
        if there:
            prefetch(&self._young.entries[(there & NUMBER) - 1])

    cdef Decision get(
        self, const uint8_t* b, Field* series, const uint8_t* raw, int64_t size, const uint64_t* known, Cuts* cuts
    ):
        """Return what happens to a series, from the cache or through the resolver, and where its labels are cut.

        `known` is the hash from `look_ahead`, or NULL.
        """
        cdef Entry entry
        cdef Entry* found = NULL
        if size <= MAX_KEY:
            if known != NULL:
                memcpy(entry.hash, known, sizeof(entry.hash))
            else:
                hash_labels(raw, size, self._key, entry.hash)
            entry.size = <int32_t> size
            found = self.find(&entry)
        if found != NULL:
            self._hits += 1
            load_cuts(&found.places, found.count, raw, size, cuts)
            return <Decision> found.verdict
        self._misses += 1
        return self.resolve(b, series, raw, size, cuts, &entry)

    cdef Entry* find(self, const Entry* wanted) except? NULL:
        """Find an entry that is not stale and make it young."""
        cdef uint64_t place = 0
        cdef Entry* entry = self._young.find(wanted, &place)
        cdef Entry moved
        if entry != NULL:
            return NULL if (<Decision> entry.verdict).stale else entry
        entry = self._old.find(wanted, &place)
        if entry == NULL:
            return NULL
        moved = entry[0]
        entry.size = -1
        self._old.moved += 1
        return NULL if (<Decision> moved.verdict).stale else self.insert(&moved, <Decision> moved.verdict)

    cdef Entry* insert(self, Entry* entry, Decision verdict) except NULL:
        """Add an entry; its verdict becomes the one that it shares with its like."""
        self.make_room(entry)
        verdict = self._young.adopt(verdict)
        entry.verdict = <void*> verdict
        return self._young.insert(entry)

    cdef bint make_room(self, const Entry* entry) except? True:
        """Let a full young generation become the old one, and the old one go; return whether that was so."""
        cdef uint64_t place = 0
        if self._young.used < self._half:
            return False
        if self._young.find(entry, &place) != NULL:
            return False  # what is stale is replaced
        self._evictions += self._old.used - self._old.moved
        self._old = self._young
        self._young = self.generation()
        if self._program is not None:
            self._program.forget()  # its verdicts are those of the young generation
        return True

    cdef Decision resolve(
        self, const uint8_t* b, Field* series, const uint8_t* raw, int64_t size, Cuts* cuts, Entry* entry
    ):
        """Decide on labels, and remember the verdict."""
        cdef Decision decision = None
        if self._program is not None and size <= MAX_KEY:
            decision = self._program.decide(raw, size, self._young, cuts)
        if decision is None:
            decision = self.ask(b, series, size, cuts)
        if size > MAX_KEY:
            return decision
        entry.count = cuts.count
        store_cuts(&entry.places, raw, size, cuts)
        return <Decision> self.insert(entry, decision).verdict

    cdef Decision ask(self, const uint8_t* b, Field* series, int64_t size, Cuts* cuts):
        """Ask the resolver."""
        cdef list labels = [], sizes = []
        cdef bint canonical = parse_labels(b, series, labels, sizes) and size <= MAX_KEY
        cdef tuple texts = None
        cdef tuple key
        verdict = self._resolve(labels)
        if canonical:
            texts = cut_labels(labels, sizes, verdict.labels, cuts)
        if texts is None:
            cuts.count, cuts.start[0], cuts.length[0] = 1, 0, size
            texts = (b"".join([encode_pair(name, value) for name, value in verdict.labels]),)
        sizes = [len(text) for text in texts]
        key = (b"".join(texts), tuple(sizes), verdict.ident, verdict.drop, verdict.debug, verdict.register)
        return self._young.make(key) if size <= MAX_KEY else Decision(key)


cdef bint parse_labels(const uint8_t* b, Field* series, list labels, list sizes) except? False:
    """Decode the labels of a series whose own fields are known to be well-formed, and the sizes of their encodings.

    Returns whether all of them are encoded canonically.
    """
    cdef Field field, part
    cdef int64_t pos = series.start, inner, expected
    cdef int parts
    cdef bint canonical = True
    cdef bytes name, value
    cdef uint8_t scratch[11]
    while pos < series.end:
        read_field(b, pos, series.end, &field)
        pos = field.end
        if field.number != 1:
            continue
        if len(labels) == MAX_LABELS:
            fail(LabelCountError, series.tag)
        name = value = b""
        inner = field.start
        parts = 0
        while inner < field.end:
            read_field(b, inner, field.end, &part)
            inner = part.end
            if part.number == 1 or part.number == 2:
                if part.wire != W_BYTES:
                    fail(WireTypeError, part.tag)
                canonical = canonical and <int> part.number > parts
                parts = <int> part.number
                if part.number == 1:
                    name = PyBytes_FromStringAndSize(<char*> b + part.start, part.end - part.start)
                else:
                    value = PyBytes_FromStringAndSize(<char*> b + part.start, part.end - part.start)
        expected = text_size(PyBytes_GET_SIZE(name)) + text_size(PyBytes_GET_SIZE(value))
        expected += 1 + put_varint(scratch, <uint64_t> expected)
        # Anything but the shortest encoding in order is longer, or has its parts in another order.
        canonical = canonical and expected == field.end - field.tag
        labels.append((name, value))
        sizes.append(field.end - field.tag)
    return canonical


cdef inline int64_t text_size(int64_t size) noexcept:
    """Return the size of a string field; an empty one is omitted, as proto3 wants."""
    cdef uint8_t scratch[11]
    return 1 + put_varint(scratch, <uint64_t> size) + size if size else 0


cdef inline uint8_t* put_text(uint8_t* out, uint8_t tag, bytes text) noexcept:
    """Write a string field; return the place behind it."""
    cdef int64_t size = PyBytes_GET_SIZE(text)
    if size == 0:
        return out
    out[0] = tag
    out += 1 + put_varint(out + 1, <uint64_t> size)
    memcpy(out, PyBytes_AS_STRING(text), size)
    return out + size


cdef bytes encode_text(uint8_t tag, bytes text):
    """Encode a string field."""
    cdef bytes out = PyBytes_FromStringAndSize(NULL, text_size(PyBytes_GET_SIZE(text)))
    put_text(<uint8_t*> PyBytes_AS_STRING(out), tag, text)
    return out


cdef bytes encode_pair(bytes name, bytes value):
    """Encode a label as a field of its series."""
    cdef uint8_t head[11]
    cdef int64_t size = text_size(PyBytes_GET_SIZE(name)) + text_size(PyBytes_GET_SIZE(value))
    cdef int n
    head[0] = 0x0A
    n = 1 + put_varint(head + 1, <uint64_t> size)
    cdef bytes out = PyBytes_FromStringAndSize(NULL, n + size)
    cdef uint8_t* data = <uint8_t*> PyBytes_AS_STRING(out)
    memcpy(data, head, n)
    put_text(put_text(data + n, 0x0A, name), 0x12, value)
    return out
