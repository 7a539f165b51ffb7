/* Part of random_calls.c: other ways to memory than its own instructions: calls, rings, faults and stacks of its own. */

static void through_a_pipe(struct owner *me, struct area *area, unsigned first, unsigned count) {
    uint64_t words[PAGE / 8];
    int ends[2];
    MUST(!pipe(ends));
    for (unsigned page = first; page < first + count; page++) {
        if (area->state[page] & (GONE | UNREADABLE | GUARDED)) break;
        MUST(write(ends[1], WHERE(page), PAGE) == PAGE && read(ends[0], words, PAGE) == PAGE);
        compare(me, area, page, words, "through a pipe");
        if (area->state[page] & UNWRITABLE) continue;
        unsigned tag = fill(me, words);
        MUST(write(ends[1], words, PAGE) == PAGE && read(ends[0], WHERE(page), PAGE) == PAGE);
        has(area, page, tag);
    }
    close(ends[0]), close(ends[1]);
}

static void by_another_call(struct owner *me, struct area *area) {
    if (!is_plain(area)) return;
    struct iovec to = {me->copy, ALL}, from = {area->at, ALL};
    MUST(process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)ALL);
    for (unsigned page = 0; page < area->pages; page++) compare(me, area, page, (void *)(me->copy + page * PAGE), "process_vm_readv");
}

static void by_splice(struct owner *me, struct area *area, unsigned first, unsigned count) {
    uint64_t words[PAGE / 8];
    int ends[2];
    if (is_any(area, first, count, GONE | UNREADABLE | GUARDED)) return;
    MUST(!pipe(ends));
    struct iovec from = {WHERE(first), count * PAGE};
    MUST(vmsplice(ends[1], &from, 1, 0) == (ssize_t)(count * PAGE));
    for (unsigned page = first; page < first + count; page++) {
        MUST(read(ends[0], words, PAGE) == (ssize_t)PAGE);
        compare(me, area, page, words, "vmsplice");
    }
    close(ends[0]), close(ends[1]);
}

/* Has a ring do something, and waits for it. The kernel gives a request up (ECANCELED) where signals keep it from
 * starting a thread of its own for it: then it is asked for again. */
static int by_a_ring(struct owner *me, int ring, unsigned char *rings, const struct io_uring_params *of, struct io_uring_sqe *entries,
                     struct io_uring_sqe wanted) {
    struct area *area = 0;
    unsigned *tail = (void *)(rings + of->sq_off.tail), *array = (void *)(rings + of->sq_off.array);
    unsigned *head = (void *)(rings + of->cq_off.head), *end = (void *)(rings + of->cq_off.tail);
    int result = -ECANCELED;
    while (result == -ECANCELED) {
        unsigned at = *tail & (of->sq_entries - 1);
        entries[at] = wanted;
        array[at] = at;
        __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
        while (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) < 0) MUST(errno == EINTR);
        while (__atomic_load_n(end, __ATOMIC_ACQUIRE) == *head)
            if (syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, 0, 0) < 0) MUST(errno == EINTR);
        result = ((struct io_uring_cqe *)(void *)(rings + of->cq_off.cqes))[*head & (of->cq_entries - 1)].res;
        __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    }
    return result;
}

/* Reads and writes of a file by a ring, with buffers that are registered or not. */
static void by_ring(struct owner *me, struct area *area, unsigned first, unsigned count) {
    if (is_any(area, first, count, GONE | UNREADABLE | UNWRITABLE | GUARDED)) return;
    struct io_uring_params of = {0};
    int ring = syscall(SYS_io_uring_setup, 4, &of), file = memfd_create("ring", MFD_CLOEXEC);
    MUST(ring >= 0 && file >= 0 && !ftruncate(file, MOST * PAGE));
    size_t length = of.sq_off.array + of.sq_entries * 4, other = of.cq_off.cqes + of.cq_entries * sizeof(struct io_uring_cqe);
    if (other > length) length = other;
    unsigned char *rings = mmap(0, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entries = mmap(0, of.sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    MUST(rings != MAP_FAILED && entries != MAP_FAILED);
    struct iovec all = {WHERE(first), count * PAGE};
    int is_fixed = below(me, 2) && !syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &all, 1);
    for (int writes = 1; writes >= 0; writes--) {
        uint64_t words[PAGE / 8];
        if (!writes) for (unsigned page = 0; page < count; page++) {
            MUST(pread(file, words, PAGE, page * PAGE) == (ssize_t)PAGE);
            compare(me, area, first + page, words, "written by a ring");
            area->tag[first + page] = fill(me, words);
            MUST(pwrite(file, words, PAGE, page * PAGE) == (ssize_t)PAGE);
        }
        struct io_uring_sqe wanted = {.opcode = is_fixed ? writes ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED
                                                         : writes ? IORING_OP_WRITE : IORING_OP_READ,
                                      .fd = file, .addr = (uint64_t)WHERE(first), .len = count * PAGE};
        int result = by_a_ring(me, ring, rings, &of, entries, wanted);
        if (result != (int)(count * PAGE)) fail(me, area, first, "a ring's result", (unsigned)result, count * PAGE);
    }
    for (unsigned page = first; page < first + count; page++) {
        has(area, page, area->tag[page]), look(me, area, page, "read by a ring");
        /* What a ring reads into registered pages of memory that is a file's is not dirty (Linux 6.18), and MADV_PAGEOUT
         * would drop it: it is written again. */
        volatile uint64_t *again = (void *)WHERE(page);
        *again = *again;
    }
    NOTE("ring, fixed %d, %p and %u pages", is_fixed, WHERE(first), count);
    munmap(rings, length), munmap(entries, of.sq_entries * sizeof *entries), close(ring), close(file);
}

/* A userfaultfd of the program's own, which is refused or served by it. */
static void by_own_userfault(struct owner *me, struct area *area) {
    int fd = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    struct uffdio_api api = {.api = UFFD_API};
    if (fd < 0) return;
    if (ioctl(fd, UFFDIO_API, &api)) { close(fd); return; }
    area->pages = 1 + below(me, 12), area->kind = PRIVATE;
    MUST((area->at = mmap(0, ALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED);
    struct uffdio_register range = {.range = {(uintptr_t)area->at, ALL}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    int refused = ioctl(fd, UFFDIO_REGISTER, &range);
    for (unsigned page = 0; page < area->pages && !refused; page++) {
        uint64_t words[PAGE / 8] __attribute__((aligned(4096))) = {0};
        unsigned tag = fill(me, words);
        struct uffdio_copy copy = {.dst = (uintptr_t)WHERE(page), .src = (uintptr_t)words, .len = PAGE};
        if (!ioctl(fd, UFFDIO_COPY, &copy)) has(area, page, tag);
        else fail(me, area, page, "UFFDIO_COPY", (uint64_t)copy.copy, 0);
    }
    for (unsigned page = 0; page < area->pages; page++) look(me, area, page, "by a userfaultfd of its own");
    NOTE("own userfaultfd for %p and %u pages: %d", area->at, area->pages, refused);
    /* A child that another thread forks just now has the descriptor for longer. */
    MUST(refused || !ioctl(fd, UFFDIO_UNREGISTER, &range.range));
    close(fd);
}

static void *on_a_stack(void *argument) {
    struct owner *me = argument;
    volatile unsigned char much[3 * PAGE];
    for (unsigned byte = 0; byte < sizeof much; byte += 64) much[byte] = byte / 64;
    look_at_all(me, "on another stack");
    for (unsigned byte = 0; byte < sizeof much; byte += 64)
        if (much[byte] != (unsigned char)(byte / 64)) dprintf(1, "a stack has other content\n"), _exit(5);
    return 0;
}

/* A thread on a stack of the program's own, unmapped as soon as it has ended. */
static void start_thread(struct owner *me) {
    struct area *area = 0;
    size_t length = 16 * PAGE;
    void *stack = mmap(0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    pthread_attr_t of;
    pthread_t thread;
    MUST(stack != MAP_FAILED && !pthread_attr_init(&of) && !pthread_attr_setstack(&of, stack, length));
    MUST(!pthread_create(&thread, &of, on_a_stack, me) && !pthread_join(thread, 0) && !munmap(stack, length));
    NOTE("thread on %p", stack);
}

/* The break belongs to the first thread. */
static void move_break(struct owner *me) {
    struct area *area = 0;
    if (me->number || me->depth) return;
    unsigned char *end = sbrk(0);
    if (me->break_end && end != me->break_end) me->break_pages = 0;
    for (unsigned page = 0; page < me->break_pages; page++) {
        volatile uint64_t *words = (void *)(end - (page + 1) * PAGE);
        uint64_t found = *words, want = word(me->break_tag[me->break_pages - 1 - page], 0);
        if (found != want) fail(me, 0, page, "below the break", found, want);
    }
    if (me->break_pages && below(me, 2)) {
        unsigned less = 1 + below(me, me->break_pages);
        MUST(sbrk(-(long)(less * PAGE)) != (void *)-1);
        me->break_pages -= less;
    } else if (me->break_pages < BREAK) {
        unsigned more = 1 + below(me, BREAK - me->break_pages);
        MUST(sbrk(more * PAGE) != (void *)-1);
        for (unsigned page = 0; page < more; page++) {
            volatile uint64_t *words = (void *)(end + page * PAGE);
            if (*words) fail(me, 0, page, "new behind the break", *words, 0);
            words[0] = word(++me->tags, 0);
            me->break_tag[me->break_pages++] = me->tags;
        }
    }
    me->break_end = sbrk(0);
    NOTE("break %p", me->break_end);
}
