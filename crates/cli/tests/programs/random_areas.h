/* Part of random_calls.c: what is done with a mapping, or a part of it. */

static void unmap(struct owner *me, struct area *area) {
    for (unsigned page = 0; page < area->pages; page++) MUST(area->state[page] & GONE || !munmap(WHERE(page), PAGE));
    NOTE("unmapped %p", area->at);
    forget(area);
}

static void map(struct owner *me, struct area *area) {
    static const int flags[KINDS] = {MAP_PRIVATE | MAP_ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS, MAP_SHARED, MAP_PRIVATE};
    int more = (below(me, 8) ? 0 : MAP_POPULATE) | (below(me, 8) ? 0 : MAP_NORESERVE) | (below(me, 32) ? 0 : MAP_LOCKED) |
               (below(me, 16) ? 0 : MAP_32BIT);
    area->pages = 1 + below(me, below(me, 4) ? 12 : MOST - 1);
    area->kind = below(me, 2) ? PRIVATE : below(me, KINDS);
    if (area->kind >= FILE_SHARED) {
        MUST((area->file = memfd_create("random", MFD_CLOEXEC)) > 0 && !ftruncate(area->file, MOST * PAGE));
        for (unsigned page = 0; area->kind == FILE_PRIVATE && page < area->pages; page += 2) {
            uint64_t words[PAGE / 8] = {0};
            area->tag[page] = area->behind[page] = fill(me, words);
            MUST(pwrite(area->file, words, PAGE, page * PAGE) == PAGE);
        }
    }
    int file = area->kind >= FILE_SHARED ? area->file : -1;
    if (area->kind == SHARED && below(me, 2)) {
        int segment = shmget(IPC_PRIVATE, ALL, 0600);
        MUST(segment >= 0 && (area->at = shmat(segment, 0, 0)) != (void *)-1 && !shmctl(segment, IPC_RMID, 0));
    } else {
        area->at = mmap(0, ALL, PROT_READ | PROT_WRITE, flags[area->kind] | more, file, 0);
        if (area->at == MAP_FAILED && more & MAP_LOCKED)
            area->at = mmap(0, ALL, PROT_READ | PROT_WRITE, flags[area->kind] | (more & ~MAP_LOCKED), file, 0);
        MUST(area->at != MAP_FAILED);
    }
    NOTE("mapped %p, %u pages of kind %d, flags %x", area->at, area->pages, area->kind, more);
}

static void drop(struct area *area, unsigned page, int surely) {
    if (area->kind == SHARED || area->kind == FILE_SHARED) return;
    if (!surely) { area->state[page] |= PERHAPS_OLD; return; }
    area->state[page] &= ~PERHAPS_OLD;
    area->tag[page] = area->behind[page];
}

static void advise(struct owner *me, struct area *area, unsigned first, unsigned count) {
    static const int kinds[] = {MADV_DONTNEED, MADV_FREE, MADV_COLD, MADV_PAGEOUT, MADV_WILLNEED, MADV_POPULATE_READ,
                                MADV_POPULATE_WRITE, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_RANDOM, MADV_DONTNEED,
                                25 /* COLLAPSE */, 24 /* DONTNEED_LOCKED */, MADV_MERGEABLE, MADV_UNMERGEABLE, MADV_DONTDUMP, MADV_DODUMP};
    int kind = kinds[below(me, sizeof kinds / sizeof *kinds)], refused = madvise(WHERE(first), count * PAGE, kind);
    NOTE("advice %d for %p and %u pages: %d", kind, WHERE(first), count, refused);
    for (unsigned page = first; page < first + count; page++) {
        if (kind == MADV_FREE) drop(area, page, 0);
        if (kind == MADV_DONTNEED || kind == 24) drop(area, page, !refused);
    }
}

static void advise_by_process(struct owner *me, struct area *area, unsigned first, unsigned count) {
    static const int kinds[] = {MADV_COLD, MADV_PAGEOUT, MADV_WILLNEED, 25, MADV_DONTNEED, MADV_FREE};
    int self = syscall(SYS_pidfd_open, getpid(), 0), kind = kinds[below(me, 6)];
    struct iovec where = {WHERE(first), count * PAGE};
    MUST(self >= 0);
    long done = syscall(SYS_process_madvise, self, &where, 1, kind, 0);
    NOTE("process_madvise %d for %p and %u pages: %ld", kind, WHERE(first), count, done);
    for (unsigned page = first; page < first + count; page++)
        if (kind == MADV_DONTNEED || kind == MADV_FREE) drop(area, page, kind == MADV_DONTNEED && done == (long)(count * PAGE));
    close(self);
}

static void guard(struct owner *me, struct area *area, unsigned first, unsigned count) {
    if (area->kind != PRIVATE || area->is_wiped) return;
    int installs = below(me, 2), refused = madvise(WHERE(first), count * PAGE, installs ? MADV_GUARD_INSTALL : MADV_GUARD_REMOVE);
    NOTE("guard %d for %p and %u pages: %d", installs, WHERE(first), count, refused);
    for (unsigned page = first; page < first + count; page++) {
        if (installs && refused) { drop(area, page, 0); area->state[page] |= GUARDED; }
        if (refused) continue;
        if (installs) drop(area, page, 1), area->state[page] |= GUARDED;
        else area->state[page] &= ~GUARDED;
    }
}

static void lock(struct owner *me, struct area *area, unsigned first, unsigned count) {
    unsigned kind = below(me, 5);
    int refused = kind == 0 ? mlock(WHERE(first), count * PAGE) : kind == 1 ? mlock2(WHERE(first), count * PAGE, MLOCK_ONFAULT) :
                  munlock(WHERE(first), count * PAGE);
    NOTE("lock %u for %p and %u pages: %d", kind, WHERE(first), count, refused);
}

static void name(struct owner *me, struct area *area, unsigned first, unsigned count) {
    int refused = prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, WHERE(first), count * PAGE, below(me, 2) ? "named" : 0);
    NOTE("name for %p and %u pages: %d", WHERE(first), count, refused);
}

/* What a file has is read, written and punched past the mapping. */
static void by_file(struct owner *me, struct area *area, unsigned first, unsigned count) {
    uint64_t words[PAGE / 8];
    if (area->kind != FILE_SHARED) return;
    unsigned call = below(me, 3);
    for (unsigned page = first; page < first + count; page++) {
        if (call == 0) {
            MUST(pread(area->file, words, PAGE, page * PAGE) == (ssize_t)PAGE);
            compare(me, area, page, words, "pread");
        } else if (call == 1) {
            memset(words, 0, PAGE);
            unsigned tag = fill(me, words);
            MUST(pwrite(area->file, words, PAGE, page * PAGE) == (ssize_t)PAGE);
            has(area, page, tag);
        } else has(area, page, 0);
    }
    NOTE("file call %u for %p and %u pages", call, WHERE(first), count);
    if (call == 2) MUST(!fallocate(area->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, first * PAGE, count * PAGE));
}

static void protect(struct owner *me, struct area *area, unsigned first, unsigned count) {
    static const int kinds[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC};
    int kind = kinds[below(me, sizeof kinds / sizeof *kinds)];
    MUST(!mprotect(WHERE(first), count * PAGE, kind));
    NOTE("protection %d for %p and %u pages", kind, WHERE(first), count);
    for (unsigned page = first; page < first + count; page++) {
        area->state[page] &= ~(UNREADABLE | UNWRITABLE);
        area->state[page] |= kind == PROT_NONE ? UNREADABLE | UNWRITABLE : kind & PROT_WRITE ? 0 : UNWRITABLE;
    }
}

static void resize(struct owner *me, struct area *area) {
    unsigned pages = 1 + below(me, MOST - 1);
    /* Shared memory without a file stays as long as it was made. */
    if (!is_plain(area) || (area->kind == SHARED && pages > area->pages)) return;
    unsigned char *to = mremap(area->at, ALL, pages * PAGE, MREMAP_MAYMOVE);
    NOTE("%p, %u pages: %p, %u pages", area->at, area->pages, to, pages);
    /* It may be more than one mapping, or locked and too much for the reservation. */
    MUST(to != MAP_FAILED || errno == EFAULT || errno == ENOMEM);
    if (to == MAP_FAILED) return;
    area->at = to;
    for (unsigned page = area->pages < pages ? area->pages : pages; page < MOST; page++) {
        area->tag[page] = area->behind[page];
        area->state[page] = 0;
    }
    area->pages = pages;
}

static void move_onto(struct owner *me, struct area *area, struct area *other) {
    int fits = other != area && other->at && other->pages >= area->pages && !is_any(other, 0, other->pages, GONE);
    if (!fits || !is_plain(area)) return;
    NOTE("%p onto %p, %u pages", area->at, other->at, area->pages);
    void *to = mremap(area->at, ALL, ALL, MREMAP_MAYMOVE | MREMAP_FIXED, other->at);
    MUST(to == other->at || errno == EFAULT);
    if (to != other->at) return;
    MUST(other->pages == area->pages || !munmap(other->at + ALL, (other->pages - area->pages) * PAGE));
    area->at = other->at;
    forget(other);
}

static void move_without_unmapping(struct owner *me, struct area *area) {
    if (area->kind != PRIVATE || !is_plain(area)) return;
    unsigned char *from = area->at, *to = mremap(from, ALL, ALL, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
    NOTE("%p moved, not unmapped: %p", from, to);
    if (to == MAP_FAILED) return;
    for (unsigned byte = 0; byte < ALL; byte += 512) MUST(!from[byte]);
    MUST(!munmap(from, ALL));
    area->at = to;
}

static void advise_forks(struct owner *me, struct area *area) {
    static const int kinds[] = {MADV_WIPEONFORK, MADV_KEEPONFORK, MADV_DONTFORK, MADV_DOFORK};
    int kind = kinds[below(me, 4)];
    if (is_any(area, 0, area->pages, GONE) || (kind == MADV_WIPEONFORK && area->kind != PRIVATE)) return;
    int refused = madvise(area->at, ALL, kind);
    NOTE("advice %d for %p: %d", kind, area->at, refused);
    if (refused) return;
    if (kind == MADV_WIPEONFORK || kind == MADV_KEEPONFORK) area->is_wiped = kind == MADV_WIPEONFORK;
    else area->is_left_out = kind == MADV_DONTFORK;
}

/* Some pages go to where others of the same kind are, and leave a hole. */
static void move_a_part(struct owner *me, struct area *area, unsigned first, unsigned count) {
    struct area *other = me->areas + below(me, AREAS);
    if (other == area || !other->at || area->kind != PRIVATE || other->kind != PRIVATE) return;
    if (area->is_wiped | area->is_left_out | other->is_wiped | other->is_left_out) return;
    if (count > other->pages) count = other->pages;
    unsigned to = below(me, other->pages - count + 1);
    if (is_any(area, first, count, GONE | UNREADABLE | UNWRITABLE | GUARDED) || is_any(other, to, count, GONE)) return;
    unsigned char *want = other->at + to * PAGE;
    int grows = below(me, 4) == 0 ? MREMAP_DONTUNMAP : 0;
    void *at = mremap(WHERE(first), count * PAGE, count * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED | grows, want);
    NOTE("part %p onto %p, %u pages, %x: %p", WHERE(first), want, count, grows, at);
    if (at != want) {
        /* Of several mappings the kernel moves some, or none, and what was there may be gone. */
        MUST(at == MAP_FAILED);
        for (unsigned page = 0; page < count; page++) other->state[to + page] = GONE, area->state[first + page] = GONE;
        for (unsigned page = 0; page < count; page++) {
            munmap(want + page * PAGE, PAGE), munmap(WHERE(first + page), PAGE);
        }
        return;
    }
    for (unsigned page = 0; page < count; page++) {
        other->tag[to + page] = area->tag[first + page];
        other->behind[to + page] = 0;
        other->state[to + page] = area->state[first + page];
        area->tag[first + page] = 0;
        area->state[first + page] = grows ? 0 : GONE;
    }
}

static void map_over(struct owner *me, struct area *area, unsigned first, unsigned count) {
    static const int flags[KINDS] = {MAP_PRIVATE | MAP_ANONYMOUS, 0, MAP_SHARED, MAP_PRIVATE};
    if (area->kind == SHARED || area->is_wiped || area->is_left_out) return;
    int file = area->kind == PRIVATE ? -1 : area->file;
    off_t offset = area->kind == PRIVATE ? 0 : first * PAGE;
    if (area->kind != PRIVATE && area->is_fixed) return;
    MUST(mmap(WHERE(first), count * PAGE, PROT_READ | PROT_WRITE, flags[area->kind] | MAP_FIXED, file, offset) == WHERE(first));
    memset(area->state + first, 0, count);
    for (unsigned page = first; page < first + count; page++) area->tag[page] = area->behind[page];
    NOTE("mapped over %p, %u pages", WHERE(first), count);
}
