# `labels.LabelWork`, compiled: what becomes of a label set, decided on the bytes of the request.
#
# The first sight of a series costs no Python object: labels are slices of the request, hosts and what is registered for them
# are remembered, and so are the few verdicts that the series of a host share. What arrives in an unusual form (duplicate or empty
# names, encodings that are not canonical, very many labels) is left to `LabelWork` itself, which is the specification.

from cpython.mem cimport PyMem_Free, PyMem_Malloc

from tocsin.ingest.labels import IDENT as _IDENT, NAME as _NAME, DropReason, LabelWork, Take

cdef enum:
    MOST_LABELS = MOST_FAR  # of a series, to be decided on here
    MOST_ADDED = 64         # to the labels of a series
    MOST_HOSTS = 16384      # remembered at a time; hosts are found again at the price of a look-up
    MOST_SHAPES = 32        # verdicts remembered per host
    MOST_SOURCES = 8        # labels from which the identity may come

cdef bytes NAME = _NAME, IDENT = _IDENT
cdef str DROPPED = DropReason.RULE


cdef extern from *:
    """
    #if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    #define tocsin_big_endian(value) __builtin_bswap64(value)
    #else
    #define tocsin_big_endian(value) (value)
    #endif
    """
    uint64_t big_endian "tocsin_big_endian" (uint64_t value) noexcept nogil


cdef struct Label:
    uint64_t first          # bytes of the name, as a number that compares as they do
    const uint8_t* name
    const uint8_t* value
    const uint8_t* field    # the two, encoded as a field of the series
    int32_t n_name
    int32_t n_value
    int32_t n_field


cdef inline int64_t short_text(const uint8_t* b, int64_t pos, int64_t end, uint8_t tag, int32_t* size) noexcept:
    """Return where a text of 1 to 16383 bytes starts that is encoded here as briefly as can be, or 0."""
    if end - pos < 3 or b[pos] != tag:
        return 0
    size[0] = b[pos + 1]
    pos += 2
    if size[0] >= 0x80:
        if not 0 < b[pos] < 0x80:
            return 0
        size[0] = (size[0] & 0x7F) | <int32_t> b[pos] << 7
        pos += 1
    return pos if 0 < size[0] <= end - pos else 0


cdef inline uint64_t first_bytes(const uint8_t* text, int64_t size, int64_t readable) noexcept:
    """Return the first 8 bytes of a text that is not empty, those behind its end as 0.

    So many bytes from its start can be read.
    """
    cdef uint64_t value = 0
    cdef int64_t i
    if readable < 8:
        for i in range(size):
            value |= <uint64_t> text[i] << (56 - 8 * i)
        return value
    memcpy(&value, text, 8)
    value = big_endian(value)
    return value if size >= 8 else value >> (64 - 8 * size) << (64 - 8 * size)


cdef inline int64_t plain_label(const uint8_t* b, int64_t pos, int64_t end, Label* label) noexcept:
    """Read a label that is encoded canonically and has a name; return the position behind it, or 0."""
    cdef int32_t size = 0
    cdef int64_t start = short_text(b, pos, end, 0x0A, &size), readable = end
    if start == 0:
        return 0
    label.field, label.n_field = b + pos, <int32_t> (start - pos) + size
    end = start + size
    pos = short_text(b, start, end, 0x0A, &label.n_name)
    if pos == 0:
        return 0
    label.name = b + pos
    label.first = first_bytes(label.name, label.n_name, readable - pos)
    pos += label.n_name
    label.value, label.n_value = b + pos, 0
    if pos < end:
        pos = short_text(b, pos, end, 0x12, &label.n_value)
        label.value = b + pos
        if pos == 0 or pos + label.n_value != end:
            return 0
    return end


cdef inline int compare(const uint8_t* a, int32_t n_a, const uint8_t* b, int32_t n_b) noexcept:
    """Compare texts as bytes objects compare."""
    cdef int order = memcmp(a, b, min(n_a, n_b))
    return order if order else n_a - n_b


cdef inline int compare_names(const Label* a, const Label* b) noexcept:
    """Compare names as bytes objects compare.  PERF: nearly all differ in their first bytes."""
    if a.first != b.first:
        return -1 if a.first < b.first else 1
    return compare(a.name, a.n_name, b.name, b.n_name)


cdef inline void point(Label* label, bytes name, bytes value, bytes field) noexcept:
    """Make a label of bytes that somebody keeps."""
    label.name, label.n_name = <const uint8_t*> PyBytes_AS_STRING(name), <int32_t> PyBytes_GET_SIZE(name)
    label.first = first_bytes(label.name, label.n_name, label.n_name)
    label.value, label.n_value = <const uint8_t*> PyBytes_AS_STRING(value), <int32_t> PyBytes_GET_SIZE(value)
    label.field, label.n_field = <const uint8_t*> PyBytes_AS_STRING(field), <int32_t> PyBytes_GET_SIZE(field)


cdef class Host:
    """An identity, the labels that belong to it, and the verdicts on its series."""

    cdef bytes raw
    cdef str ident
    cdef list kept          # what the labels point to
    cdef list shapes
    cdef Label own          # the identity itself
    cdef Label* added       # what is registered, and behind it the business group if there is one
    cdef int n_added
    cdef bint grouped

    def __init__(self, bytes raw, targets, bytes group_key):
        self.raw, self.kept, self.shapes = raw, [], []
        self.ident = raw.decode(errors="replace")
        self.keep(&self.own, IDENT, raw)
        target = targets.lookup(self.ident) if raw else None
        if target is None:
            return
        self.added = <Label*> PyMem_Malloc((len(target.labels) + 1) * sizeof(Label))
        if self.added == NULL:
            raise MemoryError
        for name, value in target.labels.items():
            self.keep(&self.added[self.n_added], name, value)
            self.n_added += 1
        self.grouped = bool(target.group_label)
        if self.grouped:
            self.keep(&self.added[self.n_added], group_key, target.group_label)

    def __dealloc__(self):
        PyMem_Free(self.added)

    cdef int keep(self, Label* label, bytes name, bytes value) except -1:
        cdef bytes field = encode_pair(name, value)
        self.kept.append((name, value, field))
        point(label, name, value, field)
        return 0


cdef struct Outcome:
    bint dropped
    bint debug
    bint register
    int32_t length[MOST_CUTS]   # of the texts of the cuts


cdef class LabelProgram:
    """The label work of one cache; used under its lock."""

    cdef object targets, register_metrics
    cdef tuple drop, debug              # labels as pairs
    cdef tuple kept                     # what the following point to
    cdef Label name, ident, group
    cdef Label sources[MOST_SOURCES]
    cdef bint renamed[MOST_SOURCES]
    cdef int n_sources
    cdef bint rewrite, register, own_ident
    cdef dict hosts
    cdef Host latest
    cdef Label old[MOST_LABELS]
    cdef const Label* new[MOST_LABELS + MOST_ADDED]
    cdef int n_old, n_new
    cdef Buffer text

    def __init__(self, work):
        rules = work.rules
        self.targets = work.targets
        self.register, self.register_metrics = rules.register, rules.register_metrics
        self.drop = tuple(tuple(rule.items()) for rule in rules.drop if rule)
        self.debug = tuple(rules.debug.items())
        self.own_ident, self.rewrite = work.ident_rule.own, rules.label_rewrite
        self.kept = (work.ident_rule.sources, rules.group_key)
        point(&self.name, NAME, b"", b"")
        point(&self.ident, IDENT, b"", b"")
        point(&self.group, rules.group_key, b"", b"")
        self.n_sources = 0
        for name, take in work.ident_rule.sources:
            assert self.n_sources < MOST_SOURCES
            point(&self.sources[self.n_sources], name, b"", b"")
            self.renamed[self.n_sources] = take is Take.RENAME
            self.n_sources += 1
        reserve(&self.text, 256)  # so that it is somewhere even when it is empty
        self.forget()

    def __dealloc__(self):
        free(self.text.data)

    cdef int forget(self) except -1:
        """Forget all hosts."""
        self.hosts, self.latest = {}, None
        return 0

    cdef int invalidate(self, object idents) except -1:
        """Forget some hosts."""
        cdef Host host
        self.latest = None
        for host in list(self.hosts.values()):
            if host.ident in idents:
                del self.hosts[host.raw]
        return 0

    cdef Decision decide(self, const uint8_t* raw, int64_t size, Generation young, Cuts* cuts):
        """Return what becomes of a label set, or None when the resolver has to say it.

        :param young: knows the verdicts there are; a new one is added.
        """
        cdef Host host
        cdef Outcome outcome
        if not self.parse(raw, size) or not self.arrange():
            return None
        host = self.identify()
        if host.n_added + 2 > MOST_ADDED:  # its identity and its group are added too
            return None
        self.attach(host)
        outcome.debug = bool(self.debug) and self.match(self.debug)
        outcome.dropped = self.drops()
        outcome.register = self.register and bool(host.raw) and self.registers()
        if self.cut(cuts, &outcome):
            return self.find(host, &outcome, cuts, young)
        # Too much has changed to say what: all labels are replaced.
        cuts.count, cuts.start[0], cuts.length[0] = 1, 0, size
        return self.make(host, &outcome, cuts, young)

    cdef bint parse(self, const uint8_t* raw, int64_t size) noexcept:
        """Read the labels; return whether all have their usual form."""
        cdef int64_t pos = 0
        self.n_old = 0
        while pos < size:
            if self.n_old == MOST_LABELS:
                return False
            pos = plain_label(raw, pos, size, &self.old[self.n_old])
            if pos == 0:
                return False
            self.n_old += 1
        return True

    cdef bint arrange(self) noexcept:
        """Sort the labels; return whether their names differ.  They nearly always arrive in order."""
        cdef int i, j, order
        for i in range(self.n_old):
            j = i
            while j > 0:
                order = compare_names(self.new[j - 1], &self.old[i])
                if order == 0:
                    return False
                if order < 0:
                    break
                self.new[j] = self.new[j - 1]
                j -= 1
            self.new[j] = &self.old[i]
        self.n_new = self.n_old
        return True

    cdef int place(self, const Label* label, bint* found) noexcept:
        """Return where a name is, or where it belongs."""
        cdef int low = 0, high = self.n_new, middle, order
        found[0] = False
        while low < high:
            middle = (low + high) // 2
            order = compare_names(self.new[middle], label)
            if order == 0:
                found[0] = True
                return middle
            if order < 0:
                low = middle + 1
            else:
                high = middle
        return low

    cdef const Label* get(self, const Label* named) noexcept:
        """Return the label of the same name, or NULL."""
        cdef bint found = False
        cdef int i = self.place(named, &found)
        return self.new[i] if found else NULL

    cdef void put(self, const Label* label, bint replace) noexcept:
        """Add a label; one of its name is replaced or wins."""
        cdef bint found = False
        cdef int i = self.place(label, &found), j
        if found:
            if replace and compare(self.new[i].value, self.new[i].n_value, label.value, label.n_value) != 0:
                self.new[i] = label
            return
        for j in range(self.n_new, i, -1):
            self.new[j] = self.new[j - 1]
        self.new[i] = label
        self.n_new += 1

    cdef void remove(self, const Label* label) noexcept:
        cdef bint found = False
        cdef int i
        self.n_new -= 1
        for i in range(self.n_new):
            found = found or self.new[i] == label
            if found:
                self.new[i] = self.new[i + 1]

    cdef Host identify(self):
        """Return the host of a series, and make sure that a series with a host names it once, as `ident`."""
        cdef const Label* label
        cdef Host host
        cdef int i
        if not self.own_ident:
            return self.host(NULL)
        label = self.get(&self.ident)
        if label != NULL and label.n_value:
            return self.host(label)
        for i in range(self.n_sources):
            label = self.get(&self.sources[i])
            if label != NULL and label.n_value:
                host = self.host(label)
                if self.renamed[i]:
                    self.remove(label)
                self.put(&host.own, True)
                return host
        return self.host(NULL)

    cdef Host host(self, const Label* label):
        """Return what is known of the host whose identity is the value of a label; NULL stands for no host."""
        cdef int32_t size = label.n_value if label != NULL else 0
        cdef Host host = self.latest
        cdef bytes raw
        if host is not None and PyBytes_GET_SIZE(host.raw) == size:
            if size == 0 or memcmp(PyBytes_AS_STRING(host.raw), label.value, size) == 0:
                return host
        raw = PyBytes_FromStringAndSize(<char*> label.value, size) if size else b""
        host = self.hosts.get(raw)
        if host is None:
            if len(self.hosts) == MOST_HOSTS:
                self.forget()
            host = self.hosts[raw] = Host(raw, self.targets, <bytes> self.kept[1])
        self.latest = host
        return host

    cdef int attach(self, Host host) except -1:
        """Add what is registered for the host."""
        cdef bint grouped
        cdef int i
        if host.added == NULL:
            return 0
        grouped = self.get(&self.group) != NULL
        for i in range(host.n_added):
            self.put(&host.added[i], self.rewrite and not grouped)
        if host.grouped and not grouped:
            self.put(&host.added[host.n_added], False)
        return 0

    cdef bint match(self, tuple wanted):
        """Whether every wanted label is there with exactly that value."""
        cdef const Label* found
        cdef Label label
        for name, value in wanted:
            point(&label, <bytes> name, <bytes> value, b"")
            found = self.get(&label)
            if found == NULL or compare(found.value, found.n_value, label.value, label.n_value) != 0:
                return False
        return True

    cdef bint drops(self):
        """Whether a rule drops the series."""
        for rule in self.drop:
            if self.match(<tuple> rule):
                return True
        return False

    cdef bint registers(self):
        """Whether a series announces its host."""
        cdef const Label* name
        if not self.register_metrics:
            return True
        name = self.get(&self.name)
        return name != NULL and PyBytes_FromStringAndSize(<char*> name.value, name.n_value) in self.register_metrics

    cdef bint cut(self, Cuts* cuts, Outcome* outcome) except? False:
        """Express the new labels as cuts into those that arrived, as `cut_labels` does, their texts one after another.

        Return whether that takes at most MOST_CUTS; all labels are the one text otherwise.
        """
        cdef int i = 0, j = 0, last = -1
        cdef int64_t pos = 0
        cdef bint fresh = True
        self.text.size = 0
        while i < self.n_old or j < self.n_new:
            if i < self.n_old and j < self.n_new and self.new[j] == &self.old[i]:
                pos += self.old[i].n_field
                i, j, fresh = i + 1, j + 1, True
                continue
            if fresh:
                last += 1
                if last == MOST_CUTS:
                    return self.replace_all(outcome)
                cuts.start[last], cuts.length[last], outcome.length[last] = pos, 0, 0
                fresh = False
            if i < self.n_old and (j == self.n_new or compare_names(&self.old[i], self.new[j]) <= 0):
                cuts.length[last] += self.old[i].n_field
                pos += self.old[i].n_field
                i += 1
            else:
                append(&self.text, self.new[j].field, self.new[j].n_field)
                outcome.length[last] += self.new[j].n_field
                j += 1
        cuts.count = last + 1
        return True

    cdef bint replace_all(self, Outcome* outcome) except? False:
        """Make all labels the one text; return False."""
        cdef int j
        self.text.size = 0
        for j in range(self.n_new):
            append(&self.text, self.new[j].field, self.new[j].n_field)
        outcome.length[0] = <int32_t> self.text.size
        return False

    cdef Decision find(self, Host host, const Outcome* outcome, const Cuts* cuts, Generation young):
        """Return the verdict on a series, one of its host's if there is such a one."""
        cdef Decision decision
        for decision in host.shapes:
            if self.same(decision, outcome, cuts.count):
                return decision
        decision = self.make(host, outcome, cuts, young)
        if len(host.shapes) == MOST_SHAPES:
            host.shapes.clear()
        host.shapes.append(decision)
        return decision

    cdef bint same(self, Decision decision, const Outcome* outcome, int count) noexcept:
        """Whether a verdict of the host is this outcome."""
        return (
            decision.dropped == outcome.dropped
            and decision.debug == outcome.debug
            and decision.register == outcome.register
            and decision.grown == self.text.size
            and decision.count == count
            and memcmp(decision.length, outcome.length, count * sizeof(int32_t)) == 0
            and memcmp(decision.text, self.text.data, self.text.size) == 0
        )

    cdef Decision make(self, Host host, const Outcome* outcome, const Cuts* cuts, Generation young):
        text = PyBytes_FromStringAndSize(<char*> self.text.data, self.text.size)
        sizes = tuple([outcome.length[i] for i in range(cuts.count)])
        drop = DROPPED if outcome.dropped else ""
        return young.make((text, sizes, host.ident, drop, bool(outcome.debug), bool(outcome.register)))
