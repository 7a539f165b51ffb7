/* Part of memory_calls.c: memory that moves. */

static int remap(void) {
    char *region = filled();
    char *moved = mremap(region, SIZE, 2 * SIZE, MREMAP_MAYMOVE);
    press();
    return moved == MAP_FAILED ? -1 : differ(moved, 7);
}

/* What is locked, and has no room behind it, moves and grows: the kernel brings in what is added. */
static int remap_locked(void) {
    char *region = map(2 * SIZE, MAP_PRIVATE);
    fill(region, 7);
    press();
    if (mlock(region, SIZE)) return NONE;
    if (mprotect(region + SIZE, SIZE, PROT_NONE)) return -1;
    char *moved = mremap(region, SIZE, 2 * SIZE, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED || moved == region) return -2;
    int wrong = differ(moved, 7) + dirty(moved + SIZE);
    fill(moved + SIZE, 8);
    press();
    wrong += differ(moved, 7) + differ(moved + SIZE, 8);
    unsigned char there[2 * PAGES];
    if (mincore(moved, 2 * SIZE, there)) return -3;
    for (size_t page = 0; page < 2 * PAGES; page++) wrong += !(there[page] & 1);
    return wrong + munlock(moved, 2 * SIZE) + munmap(region + SIZE, SIZE);
}

/* Memory in two parts, of which a memory server manages the second: natively they are one mapping. */
static char *parts(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, protection = PROT_READ | PROT_WRITE;
    char *room = map(3 * SIZE, MAP_PRIVATE);
    if (mmap(room, SIZE, protection, flags | MAP_STACK, -1, 0) != room) return 0;
    if (mmap(room + SIZE, SIZE, protection, flags, -1, 0) != room + SIZE) return 0;
    /* As stacks are; and no room behind them. */
    if (madvise(room, 2 * SIZE, MADV_NOHUGEPAGE) || mprotect(room + 2 * SIZE, SIZE, PROT_NONE)) return 0;
    fill(room, 7), fill(room + SIZE, 8);
    press();
    return room;
}

#define SYS_MSEAL 462

/* Grows a range that is not one mapping, as no kernel does; `from` holds content in its first part. */
static int stays(char *from) {
    char *there = map(3 * SIZE, MAP_PRIVATE);
    int wrong = mremap(from, 2 * SIZE, 3 * SIZE, MREMAP_MAYMOVE) != MAP_FAILED || errno != EFAULT;
    wrong += mremap(from, 2 * SIZE, 3 * SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, there) != MAP_FAILED || errno != EFAULT;
    press();
    return wrong + differ(from, 7);
}

static int remap_several(void) {
    char *hole = parts();
    munmap(hole + SIZE, PAGE);
    char *protected = parts();
    if (mprotect(protected + SIZE, SIZE, PROT_READ)) return -1;
    char *shared = parts();
    int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED;
    if (mmap(shared + SIZE, SIZE, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) return -1;
    fill(shared + SIZE, 8);
    return stays(hole) + stays(protected) + stays(shared) + differ(protected + SIZE, 8) + differ(shared + SIZE, 8);
}

static int remap_pieces(void) {
    char *from = parts(), *to = map(2 * SIZE, MAP_PRIVATE);
    if (mremap(from, 2 * SIZE, 2 * SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to) return -1;
    press();
    int wrong = differ(to, 7) + differ(to + SIZE, 8);
    from = parts();
    to = mremap(from, 2 * SIZE, 3 * SIZE, MREMAP_MAYMOVE);
    if (to == MAP_FAILED || to == from) return -2;
    press();
    wrong += differ(to, 7) + differ(to + SIZE, 8) + dirty(to + 2 * SIZE);
    /* The locked part grows; where the lock makes two mappings of it, it may be refused and must stay. */
    from = parts();
    if (!mlock(from + SIZE, SIZE)) {
        to = mremap(from, 2 * SIZE, 3 * SIZE, MREMAP_MAYMOVE);
        if (to == MAP_FAILED && errno != EFAULT) return -4;
        press();
        if (to != MAP_FAILED) wrong += dirty(to + 2 * SIZE);
        to = to == MAP_FAILED ? from : to;
        wrong += differ(to, 7) + differ(to + SIZE, 8) + munlock(to + SIZE, SIZE);
    }
    /* The part that would grow may not change: nothing moves. */
    from = parts();
    if (!syscall(SYS_MSEAL, from + SIZE, SIZE, 0)) {
        if (mremap(from, 2 * SIZE, 3 * SIZE, MREMAP_MAYMOVE) != MAP_FAILED) return -5;
        press();
        wrong += differ(from, 7) + differ(from + SIZE, 8);
    }
    from = parts();
    to = mremap(from, 2 * SIZE, 2 * SIZE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
    if (to == MAP_FAILED) return errno == EINVAL ? wrong : -3;
    press();
    return wrong + differ(to, 7) + differ(to + SIZE, 8) + dirty(from) + dirty(from + SIZE);
}
