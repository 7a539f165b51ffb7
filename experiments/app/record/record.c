// Records which pages a program touches, job by job, in the order of first touch within a job.
//
//   record --skip N --jobs N --output FILE [--chunk N] [--descriptor N] -- PROGRAM ARGUMENT...
//
// A job ends where the program writes to a descriptor, 1 unless said: MPlayer's status line, one line of the others.
// N pages are opened at once (--chunk), 1 unless said: the kernel allows a process 65530 mappings.
// At each such end all mappings of the program are made inaccessible; the first touch of a page in the next job traps,
// is written down and makes the page accessible again. Where the trap is a write the page is recorded as written;
// a page that is read first stays write-protected, so that a later write is seen as well.
// Threads are followed; a child process runs on unrecorded. Closed pages are met by the threads one at a time,
// so the order
// between threads is that of their traps.
//
// Output, text: `job N`, then one line a touch: page number in the address space, `r` or `w`, kind of mapping
// (a anonymous, f file). A page read and then written has two lines. Needs x86-64 Linux and ptrace.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 16384, PAGE = 4096 };

struct mapping {
    uint64_t first, end;
    int protection;
    char kind;
};

static struct mapping table[MOST];
static int mappings;
static unsigned char *state[MOST]; // per page: 0 closed, 1 readable, 2 open
static pid_t child;  // the program
static pid_t thread; // whose stop is being looked at
static uint64_t gate; // address of a syscall instruction in the program
static FILE *out;
static long chunk = 1;

static void fail(const char *what) {
    perror(what);
    if (child > 0) {
        kill(child, SIGKILL);
    }
    exit(1);
}

static void wait_step(void) {
    int status;
    if (waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status)) {
        fprintf(stderr, "record: the program ended inside an injected call\n");
        exit(1);
    }
}

// Runs one system call in the program, which is stopped, and puts its registers back.
static long inject(long number, uint64_t a, uint64_t b, uint64_t c) {
    struct user_regs_struct saved, call;
    if (ptrace(PTRACE_GETREGS, thread, 0, &saved)) {
        fail("registers");
    }
    call = saved;
    call.rip = gate;
    call.rax = number;
    call.orig_rax = -1;
    call.rdi = a;
    call.rsi = b;
    call.rdx = c;
    if (ptrace(PTRACE_SETREGS, thread, 0, &call) || ptrace(PTRACE_SINGLESTEP, thread, 0, 0)) {
        fail("step");
    }
    wait_step();
    if (ptrace(PTRACE_GETREGS, thread, 0, &call) || ptrace(PTRACE_SETREGS, thread, 0, &saved)) {
        fail("registers");
    }
    return call.rax;
}

static uint64_t find_gate(void) {
    char name[64], line[512];
    snprintf(name, sizeof name, "/proc/%d/maps", child);
    FILE *maps = fopen(name, "r");
    uint64_t first = 0, end = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        if (strstr(line, "[vdso]")) {
            sscanf(line, "%lx-%lx", &first, &end);
        }
    }
    fclose(maps);
    unsigned char code[4 * PAGE];
    uint64_t length = end - first > sizeof code ? sizeof code : end - first;
    struct iovec local = {code, length}, remote = {(void *)first, length};
    if (process_vm_readv(child, &local, 1, &remote, 1, 0) != (ssize_t)length) {
        fail("vdso");
    }
    for (uint64_t at = 0; at + 1 < length; at++) {
        if (code[at] == 0x0f && code[at + 1] == 0x05) {
            return first + at;
        }
    }
    fail("no system call in the vdso");
    return 0;
}

// Reads the mappings and closes all that the program may touch but stack, vdso and kernel pages.
static void close_all(void) {
    char name[64], line[1024];
    for (int at = 0; at < mappings; at++) {
        free(state[at]);
        // Some may be gone meanwhile, in whole or in part: what is left is closed again below.
        inject(SYS_mprotect, table[at].first, table[at].end - table[at].first, table[at].protection);
    }
    mappings = 0;
    snprintf(name, sizeof name, "/proc/%d/maps", child);
    FILE *maps = fopen(name, "r");
    while (maps && fgets(line, sizeof line, maps)) {
        uint64_t first, end;
        unsigned long inode;
        char rights[8];
        if (sscanf(line, "%lx-%lx %7s %*s %*s %lu", &first, &end, rights, &inode) != 4) {
            continue;
        }
        if (strstr(line, "[stack]") || strstr(line, "[v") || rights[0] != 'r') {
            continue;
        }
        if (mappings == MOST) {
            fprintf(stderr, "record: too many mappings\n");
            exit(1);
        }
        int protection = PROT_READ | (rights[1] == 'w' ? PROT_WRITE : 0) | (rights[2] == 'x' ? PROT_EXEC : 0);
        table[mappings] = (struct mapping){first, end, protection, inode ? 'f' : 'a'};
        state[mappings++] = calloc((end - first) / PAGE, 1);
    }
    fclose(maps);
    for (int at = 0; at < mappings; at++) {
        inject(SYS_mprotect, table[at].first, table[at].end - table[at].first, PROT_NONE);
    }
}

static int mapping_of(uint64_t address) {
    int low = 0, high = mappings - 1;
    while (low <= high) {
        int middle = (low + high) / 2;
        if (address < table[middle].first) {
            high = middle - 1;
        } else if (address >= table[middle].end) {
            low = middle + 1;
        } else {
            return middle;
        }
    }
    return -1;
}

// Opens the page; 0 where it is none of the closed ones or open already.
static int touch(uint64_t address, int write) {
    int at = mapping_of(address);
    if (at < 0) {
        return 0;
    }
    struct mapping *of = &table[at];
    uint64_t page = (address - of->first) / PAGE;
    if (write && !(of->protection & PROT_WRITE)) {
        write = 0;
    }
    int wanted = write ? 2 : 1;
    if (state[at][page] >= wanted) {
        return 0;
    }
    fprintf(out, "%lu %c %c\n", address / PAGE, write ? 'w' : 'r', of->kind);
    int protection = write ? of->protection : of->protection & ~PROT_WRITE;
    for (long next = 0; next < chunk && page + next < (of->end - of->first) / PAGE; next++) {
        if (state[at][page + next] < wanted) {
            inject(SYS_mprotect, of->first + (page + next) * PAGE, PAGE, protection);
            state[at][page + next] = wanted;
        }
    }
    return 1;
}

// The kernel met a closed page in a call: opens what the arguments may mean. 0 where there is nothing to open.
static int touch_arguments(const struct user_regs_struct *call) {
    uint64_t arguments[6] = {call->rdi, call->rsi, call->rdx, call->r10, call->r8, call->r9};
    int opened = 0;
    int writes = call->orig_rax != SYS_write && call->orig_rax != SYS_openat && call->orig_rax != SYS_writev;
    for (int at = 0; at < 6; at++) {
        uint64_t length = at < 5 ? arguments[at + 1] : 1;
        if (length == 0 || length > (64 << 20)) {
            length = 1;
        }
        for (uint64_t next = arguments[at] & ~4095ul; next < arguments[at] + length; next += PAGE) {
            opened |= touch(next, writes);
        }
    }
    return opened;
}

// What is known of one thread.
struct follower {
    pid_t id;
    int inside;
    struct user_regs_struct entry;
};

static struct follower followers[4096];

static struct follower *follower_of(pid_t id) {
    for (int at = 0; at < 4096; at++) {
        if (followers[at].id == id || followers[at].id == 0) {
            followers[at].id = id;
            return &followers[at];
        }
    }
    fprintf(stderr, "record: too many threads\n");
    exit(1);
}

static long skip = 10, jobs = 10, ends;
static unsigned long marker = 1;
static int recording;

// The program ended a job. Whether that was the last one to record.
static int end_job(void) {
    ends++;
    if (ends == skip) {
        gate = find_gate();
    }
    if (ends >= skip + jobs) {
        return 1;
    }
    if (ends >= skip) {
        close_all();
        recording = 1;
        fprintf(out, "job %ld\n", ends - skip);
    }
    return 0;
}

// A thread stands before or behind a system call. Whether all has been recorded.
static int meet_call(struct follower *of) {
    struct user_regs_struct now;
    ptrace(PTRACE_GETREGS, thread, 0, &now);
    of->inside = !of->inside;
    if (of->inside) {
        of->entry = now;
        return 0;
    }
    long result = (long)now.rax;
    if (recording && result == -EFAULT && touch_arguments(&of->entry)) {
        of->entry.rip = now.rip - 2;
        of->entry.rax = of->entry.orig_rax;
        of->entry.orig_rax = -1;
        ptrace(PTRACE_SETREGS, thread, 0, &of->entry);
        return 0;
    }
    return of->entry.orig_rax == SYS_write && of->entry.rdi == marker && result > 0 && end_job();
}

// A thread met a closed page, or did wrong: then the signal is its own.
static int meet_fault(void) {
    siginfo_t info;
    ptrace(PTRACE_GETSIGINFO, thread, 0, &info);
    uint64_t address = (uint64_t)info.si_addr;
    int at = mapping_of(address);
    // Which access it was is not told: a page is opened for reading first; a second trap on it is a write. Two threads
    // that met one closed page at the same time look like that too.
    int seen = at >= 0 && state[at][(address - table[at].first) / PAGE] >= 1;
    int was = at >= 0 ? state[at][(address - table[at].first) / PAGE] : 0;
    return touch(address, seen) || was ? 0 : SIGSEGV;
}

static void peak(void) {
    char name[64], line[256];
    snprintf(name, sizeof name, "/proc/%d/status", child);
    FILE *status = fopen(name, "r");
    while (status && fgets(line, sizeof line, status)) {
        if (!strncmp(line, "VmHWM", 5) || !strncmp(line, "VmRSS", 5)) {
            fprintf(out, "# %s", line);
        }
    }
    fclose(status);
}

static int follow(void) {
    for (;;) {
        int status, give = 0;
        thread = waitpid(-1, &status, __WALL);
        if (thread < 0) {
            fail("wait");
        }
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (thread == child) {
                fprintf(stderr, "record: the program ended (%x) after %ld job ends\n", status, ends);
                return 1;
            }
            follower_of(thread)->inside = 0;
            continue;
        }
        int stop = WSTOPSIG(status);
        if (stop == (SIGTRAP | 0x80)) {
            if (meet_call(follower_of(thread))) {
                peak();
                kill(child, SIGKILL);
                return 0;
            }
        } else if (stop == SIGSEGV && recording) {
            give = meet_fault();
        } else if (stop != SIGTRAP && stop != SIGSTOP) {
            give = stop;
        }
        ptrace(PTRACE_SYSCALL, thread, 0, give);
    }
}

int main(int count, char **words) {
    const char *output = "/dev/stdout";
    int at = 1;
    for (; at + 1 < count && strcmp(words[at], "--"); at += 2) {
        if (!strcmp(words[at], "--skip")) {
            skip = atol(words[at + 1]);
        } else if (!strcmp(words[at], "--jobs")) {
            jobs = atol(words[at + 1]);
        } else if (!strcmp(words[at], "--chunk")) {
            chunk = atol(words[at + 1]);
        } else if (!strcmp(words[at], "--descriptor")) {
            marker = strtoul(words[at + 1], NULL, 10);
        } else if (!strcmp(words[at], "--output")) {
            output = words[at + 1];
        }
    }
    if (at + 1 >= count || skip < 1 || !(out = fopen(output, "w"))) {
        fprintf(stderr, "usage: record --skip N --jobs N --output FILE [--chunk N] [--descriptor N] -- PROGRAM...\n");
        return 2;
    }
    child = fork();
    if (child == 0) {
        personality(ADDR_NO_RANDOMIZE);
        // The kernel writes the area of restartable sequences by itself: a closed page there would end the program.
        setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execvp(words[at + 1], words + at + 1);
        _exit(127);
    }
    int status;
    waitpid(child, &status, 0);
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE;
    ptrace(PTRACE_SETOPTIONS, child, 0, options);
    ptrace(PTRACE_SYSCALL, child, 0, 0);
    return follow();
}
