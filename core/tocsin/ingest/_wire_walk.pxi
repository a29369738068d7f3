# The parts of a series, found without looking into its labels.

cdef struct Series:
    Field field             # the entry itself
    int64_t labels_end      # end of the labels that stand at its beginning
    bint scattered          # further labels follow later
    Field sample            # the first sample; its tag is -1 when there is none
    int64_t samples


cdef struct Pieces:
    const uint8_t* labels
    int64_t n_labels
    const uint8_t* before
    int64_t n_before
    const uint8_t* sample
    int64_t n_sample
    const uint8_t* after
    int64_t n_after


cdef inline bint plain_sample(const uint8_t* b, int64_t pos, int64_t end, int64_t* behind) noexcept:
    """Whether a sample field as every encoder writes it starts here: a value, then perhaps a timestamp."""
    cdef int64_t left = end - pos, size, i
    if left < 11 or b[pos] != 0x12 or b[pos + 2] != 0x09:
        return False
    size = b[pos + 1]
    if size > 20 or left - 2 < size:
        return False
    behind[0] = pos + 2 + size
    if size == 9:
        return True
    if size < 11 or b[pos + 11] != 0x10 or b[pos + 1 + size] >= 0x80:
        return False
    if size == 20 and b[pos + 21] > 1:
        return False
    for i in range(pos + 12, pos + 1 + size):
        if b[i] < 0x80:
            return False
    return True


cdef inline int64_t skip_label(const uint8_t* b, int64_t pos, int64_t end) noexcept:
    """Return the position behind a label field of usual size, or 0 when something else starts here."""
    if end - pos > 1 and b[pos] == 0x0A and b[pos + 1] < 0x80 and b[pos + 1] <= end - pos - 2:
        return pos + 2 + b[pos + 1]
    return 0


cdef int walk_series(const uint8_t* b, Series* s, int64_t pos) except -1:
    """Validate the fields of a series, except for what is inside its labels, and find its parts.

    Up to `pos` there are labels of usual size.
    """
    cdef int64_t end = s.field.end, behind = 0
    cdef Field part
    cdef bint leading = True
    s.labels_end = pos
    s.scattered = False
    s.sample.tag = -1
    s.samples = 0
    while pos < end:
        if plain_sample(b, pos, end, &behind):
            leading = False
            s.samples += 1
            if s.sample.tag < 0:
                s.sample.tag = pos
                s.sample.start = pos + 2
                s.sample.end = behind
            pos = behind
            continue
        if leading:
            behind = skip_label(b, pos, end)
            if behind:
                s.labels_end = pos = behind
                continue
        read_field(b, pos, end, &part)
        check_field(b, &part, M_SERIES)
        pos = part.end
        if part.number == 1:
            if leading:
                s.labels_end = pos
            else:
                s.scattered = True
        else:
            leading = False
            s.samples += part.number == 2 or part.number == 4
            if part.number == 2 and s.sample.tag < 0:
                s.sample = part
    return 0
