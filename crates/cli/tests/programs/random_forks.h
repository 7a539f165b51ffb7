/* Part of random_calls.c: children. */

static void step(struct owner *me);

static pid_t make_child(void) {
    if (!past_the_library) return fork();
    long made = SYS_fork;
    __asm__ volatile("syscall" : "+a"(made) : : "rcx", "r11", "memory");
    return (pid_t)made;
}

static void be_child(struct owner *me, int shared, int begin) {
    struct area *area = me->areas;
    char byte;
    me->depth++;
    memset(me->children, 0, sizeof me->children);
    if (begin >= 0) while (read(begin, &byte, 1) < 0) MUST(errno == EINTR);
    /* What is shared the parent goes on to write. */
    for (area = me->areas; area < me->areas + AREAS; area++) {
        if (area->is_left_out) { forget(area); continue; }
        for (unsigned page = 0; area->is_wiped && page < area->pages; page++) has(area, page, 0);
        if (area->kind != SHARED && area->kind != FILE_SHARED) continue;
        for (unsigned page = 0; area->at && shared >= 0 && page < area->pages; page++) {
            look(me, area, page, "shared, in a child");
            unsigned told[3] = {area - me->areas, page, 0};
            if (below(me, 8)) continue;
            put(me, area, page);
            told[2] = area->tag[page];
            if (!is_any(area, page, 1, GONE | UNREADABLE | UNWRITABLE | GUARDED)) MUST(write(shared, told, sizeof told) == sizeof told);
        }
        forget(area);
    }
    look_at_all(me, "after a fork");
    for (unsigned left = me->depth > DEEP ? 3 : 30; left; left--) step(me);
    look_at_all(me, "at a child's end");
    if (me->depth == 1 && below(me, 4) == 0) kill(getpid(), SIGKILL);
    _exit(0);
}

static void reap(struct owner *me, pid_t child) {
    struct area *area = 0;
    int status;
    while (waitpid(child, &status, 0) < 0) MUST(errno == EINTR);
    if (status && !(me->depth == 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
        fail(me, area, 0, "a child's status", (unsigned)status, 0);
}

static void fork_once(struct owner *me) {
    struct area *area = 0;
    int shared[2], begin[2], told[3];
    MUST(!pipe(shared) && !pipe(begin));
    NOTE("fork");
    pid_t child = make_child();
    MUST(child >= 0);
    if (!child) be_child(me, shared[1], begin[0]);
    close(shared[1]), close(begin[0]);
    /* It waits; what it has is as it was. */
    for (area = me->areas; below(me, 2) && area < me->areas + AREAS; area++) {
        uint64_t words[PAGE / 8];
        if (!area->at || !is_plain(area) || area->is_wiped || area->is_left_out) continue;
        unsigned page = below(me, area->pages);
        struct iovec to = {words, PAGE}, from = {WHERE(page), PAGE};
        MUST(process_vm_readv(child, &to, 1, &from, 1, 0) == (ssize_t)PAGE);
        compare(me, area, page, words, "of a child");
    }
    MUST(write(begin[1], "", 1) == 1);
    close(begin[1]);
    for (area = me->areas; below(me, 2) && area < me->areas + AREAS; area++)
        for (unsigned page = 0; area->kind == PRIVATE && area->at && page < area->pages; page++) put(me, area, page);
    area = 0;
    for (ssize_t got; (got = read(shared[0], told, sizeof told)) != 0;) {
        if (got < 0) { MUST(errno == EINTR); continue; }
        MUST(got == sizeof told);
        has(me->areas + told[0], told[1], told[2]);
    }
    close(shared[0]);
    reap(me, child);
}

/* Children that end when they like, several at a time; some leave children of their own behind. */
static void fork_and_go_on(struct owner *me) {
    unsigned at = below(me, CHILDREN);
    if (me->children[at]) { reap(me, me->children[at]); me->children[at] = 0; return; }
    struct area *area = 0;
    NOTE("fork, not waited for");
    pid_t child = make_child();
    MUST(child >= 0);
    if (!child) be_child(me, -1, -1);
    me->children[at] = me->depth && below(me, 2) ? 0 : child;
}

static void start_another(struct owner *me) {
    extern char **environ;
    char *words[] = {"true", 0};
    struct area *area = 0;
    int status;
    pid_t child;
    MUST(!posix_spawn(&child, "/bin/true", 0, 0, words, environ));
    while (waitpid(child, &status, 0) < 0) MUST(errno == EINTR);
    if (status) fail(me, area, 0, "the status of true", (unsigned)status, 0);
}

static void vfork_once(struct owner *me) {
    struct area *area = 0;
    int status;
    pid_t child = vfork();
    if (!child) _exit(7);
    MUST(child > 0);
    while (waitpid(child, &status, 0) < 0) MUST(errno == EINTR);
    MUST(WEXITSTATUS(status) == 7);
}
