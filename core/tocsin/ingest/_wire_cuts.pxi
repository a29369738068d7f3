# How new labels are kept: as cuts into the raw ones, ranges of whole labels that a text replaces, either of them empty.
#
# Up to NEAR_CUTS are kept as they are. More are kept as two sets of labels, those that go and those before which something is
# inserted, from which the cuts are found again by a walk over the labels. Beyond MOST_CUTS all labels are one cut.

cdef enum:
    NEAR_CUTS = 4
    MOST_CUTS = 16
    MOST_FAR = 63           # labels of a series with more than NEAR_CUTS, so that sets of them have 64 bits


cdef struct Cuts:
    int count
    int64_t start[MOST_CUTS]
    int64_t length[MOST_CUTS]


cdef struct NearCuts:
    uint16_t start[NEAR_CUTS]
    uint16_t length[NEAR_CUTS]


cdef struct FarCuts:
    uint64_t removed
    uint64_t inserted       # before the label of that number, which stays; the bit behind the last is the end


cdef union Places:
    NearCuts near
    FarCuts far


cdef inline void load_cuts(const Places* places, int count, const uint8_t* raw, int64_t size, Cuts* cuts) noexcept:
    """Return the cuts of an entry into its labels."""
    cdef int i
    cuts.count = count
    if count > NEAR_CUTS:
        load_far_cuts(&places.far, raw, size, cuts)
        return
    for i in range(count):
        cuts.start[i] = places.near.start[i]
        cuts.length[i] = places.near.length[i]


cdef inline void store_cuts(Places* places, const uint8_t* raw, int64_t size, const Cuts* cuts) noexcept:
    """Keep cuts into canonical labels."""
    cdef int i
    memset(places, 0, sizeof(Places))
    if cuts.count > NEAR_CUTS:
        store_far_cuts(&places.far, raw, size, cuts)
        return
    for i in range(cuts.count):
        places.near.start[i] = <uint16_t> cuts.start[i]
        places.near.length[i] = <uint16_t> cuts.length[i]


cdef inline int64_t label_size(const uint8_t* label) noexcept:
    """Return the size of a valid label field of at most MAX_KEY bytes."""
    return 2 + label[1] if label[1] < 0x80 else 3 + (label[1] & 0x7F | <int64_t> label[2] << 7)


cdef void load_far_cuts(const FarCuts* far, const uint8_t* raw, int64_t size, Cuts* cuts) noexcept:
    cdef int64_t pos = 0, step
    cdef uint64_t label = 1
    cdef bint open = False
    cdef int last = -1
    while True:
        if not open and (far.removed | far.inserted) & label:
            last += 1
            cuts.start[last], cuts.length[last] = pos, 0
        if pos == size:
            return
        step = label_size(raw + pos)
        open = far.removed & label != 0
        if open:
            cuts.length[last] += step
        pos += step
        label <<= 1


cdef void store_far_cuts(FarCuts* far, const uint8_t* raw, int64_t size, const Cuts* cuts) noexcept:
    cdef int64_t pos = 0, end
    cdef uint64_t label = 1
    cdef int i
    for i in range(cuts.count):
        while pos < cuts.start[i]:
            pos += label_size(raw + pos)
            label <<= 1
        end = pos + cuts.length[i]
        if pos == end:
            far.inserted |= label
        while pos < end:
            far.removed |= label
            pos += label_size(raw + pos)
            label <<= 1


cdef tuple cut_labels(list old, list sizes, object labels, Cuts* cuts):
    """Express new labels as cuts into the old ones; return their texts, or None when it takes too many."""
    cdef Py_ssize_t i = 0, j = 0, n_old = len(old), n_new = len(labels)
    cdef int most = MOST_CUTS if n_old <= MOST_FAR else NEAR_CUTS
    cdef int64_t pos = 0
    cdef bint fresh = True
    cdef list texts = []
    cuts.count = 0
    while i < n_old or j < n_new:
        before = old[i] if i < n_old else None
        after = labels[j] if j < n_new else None
        if before is not None and after is not None and before == after:
            pos += <int64_t> sizes[i]
            i, j, fresh = i + 1, j + 1, True
            continue
        if fresh:
            if cuts.count == most:
                return None
            cuts.start[cuts.count], cuts.length[cuts.count] = pos, 0
            cuts.count += 1
            texts.append(b"")
            fresh = False
        if after is None or (before is not None and before[0] <= after[0]):
            cuts.length[cuts.count - 1] += <int64_t> sizes[i]
            pos += <int64_t> sizes[i]
            i += 1
        else:
            texts[cuts.count - 1] += encode_pair(after[0], after[1])
            j += 1
    return tuple(texts)
