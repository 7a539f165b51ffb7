/* A program that cooperates with a real server: FREEHOLD_SOCKET says where it is. */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FRAMES = 64, PAGES = 200, PAGE = 4096 };

static freehold_counts count(const freehold_task *task)
{
    freehold_counts counts = {.size = sizeof counts};
    OK(freehold_count(task, &counts));
    return counts;
}

/* More pages than frames: what does not fit goes to the store and comes back as it was. */
static void pages_come_back(freehold_task *task, freehold_mapping *mapping)
{
    volatile uint64_t *words = freehold_address(mapping);
    CHECK(words != NULL && freehold_length(mapping) == (size_t)PAGES * PAGE);
    for (int page = 0; page < PAGES; page++) {
        words[page * 512 + 7] = 0x1000 + (uint64_t)page;
    }
    for (int round = 0; round < 3; round++) {
        for (int page = 0; page < PAGES; page++) {
            CHECK(words[page * 512 + 7] == 0x1000 + (uint64_t)page);
            CHECK(words[page * 512 + 8] == 0);
        }
    }
    freehold_counts counts = count(task);
    CHECK(counts.zero_fills == PAGES);
    CHECK(counts.swap_ins >= 3 * (PAGES - FRAMES));
    CHECK(counts.evictions >= counts.swap_ins);
}

static void pins_stay(freehold_reservation *reservation, freehold_task *task, freehold_mapping *mapping)
{
    volatile uint64_t *words = freehold_address(mapping);
    volatile char *bytes = freehold_address(mapping);
    /* 3 bytes over a boundary are two pages. */
    OK(freehold_pin(reservation, mapping, (const char *)bytes + 2 * PAGE - 1, 3));
    for (int page = 0; page < PAGES; page++) {
        (void)words[page * 512];
    }
    uint64_t before = count(task).swap_ins;
    CHECK(words[1 * 512 + 7] == 0x1001 && words[2 * 512 + 7] == 0x1002);
    CHECK(count(task).swap_ins == before);
    OK(freehold_unpin(reservation, mapping, (const char *)bytes + 2 * PAGE - 1, 3));
    CHECK(freehold_pin(reservation, mapping, (const char *)bytes + PAGES * PAGE - 1, 2) == FREEHOLD_INVALID);
    CHECK(freehold_pin(reservation, mapping, (const char *)bytes - 1, 1) == FREEHOLD_INVALID);
}

static void periods(freehold_task *task, freehold_mapping *mapping)
{
    freehold_periodic *periodic = NULL;
    freehold_periodic_options options = {
        .size = sizeof options, .period_ns = 2000000, .duration_ns = 10000000};
    volatile uint64_t *words = freehold_address(mapping);
    OK(freehold_periodic_begin(task, &options, &periodic));
    while (freehold_periodic_wait(periodic) == FREEHOLD_OK) {
        words[0]++;
    }
    freehold_tally tally = {.size = sizeof tally};
    OK(freehold_tally_of(periodic, &tally));
    CHECK(tally.jobs >= 1 && words[0] == tally.jobs);
    OK(freehold_periodic_end(periodic));
}

static int policy_of(pid_t process)
{
    int policy = sched_getscheduler(process);
    CHECK(policy >= 0);
    return policy & ~SCHED_RESET_ON_FORK;
}

/* What a child asks for is for its own thread, and its parent's periods are not its. */
static void periods_of_a_child(freehold_periodic *parents)
{
    CHECK(freehold_periodic_wait(parents) == FREEHOLD_INVALID);
    freehold_periodic *periodic = NULL;
    freehold_periodic_options options = {.size = sizeof options,
                                         .period_ns = 2000000,
                                         .duration_ns = 4000000,
                                         .scheduling = FREEHOLD_FIFO,
                                         .priority = 1};
    enum freehold_status status = freehold_periodic_begin(NULL, &options, &periodic);
    if (status == FREEHOLD_SYSTEM) {
        puts("left out: no right to real-time priorities");
        return;
    }
    OK(status);
    CHECK(policy_of(0) == SCHED_FIFO && policy_of(getppid()) == SCHED_OTHER);
    while (freehold_periodic_wait(periodic) == FREEHOLD_OK) {
    }
    OK(freehold_periodic_end(periodic));
    CHECK(policy_of(0) == SCHED_OTHER);
}

/* A child of a fork cannot use the parent's connection; one of its own can join the reservation. */
static void children(freehold_connection *connection, const char *ticket)
{
    freehold_periodic *parents = NULL;
    freehold_periodic_options options = {.size = sizeof options, .period_ns = 2000000};
    OK(freehold_periodic_begin(NULL, &options, &parents));
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        freehold_reservation *joined = NULL;
        CHECK(freehold_join(connection, ticket, &joined) == FREEHOLD_FORKED);
        freehold_connection *own = NULL;
        uint32_t frames = 0;
        OK(freehold_connect(NULL, &own));
        OK(freehold_join(own, ticket, &joined));
        OK(freehold_frames(joined, &frames));
        CHECK(frames == FRAMES);
        CHECK(freehold_join(own, "not a ticket", &joined) == FREEHOLD_INVALID && joined == NULL);
        periods_of_a_child(parents);
        OK(freehold_disconnect(own));
        exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    OK(freehold_periodic_wait(parents));
    OK(freehold_periodic_end(parents));
}

/* Pages that are none, or not all there, are the caller's mistake. */
static void ranges(freehold_reservation *reservation, freehold_task *task, freehold_region *region)
{
    const uint32_t wrong[][2] = {{0, 0}, {PAGES, 1}, {PAGES - 1, 2}, {UINT32_MAX, 2}, {1, UINT32_MAX}};
    for (size_t at = 0; at < sizeof wrong / sizeof *wrong; at++) {
        freehold_mapping *mapping = NULL;
        uint32_t first = wrong[at][0], pages = wrong[at][1];
        CHECK(freehold_map_part(task, region, first, pages, &mapping) == FREEHOLD_INVALID && mapping == NULL);
        CHECK(freehold_lock(reservation, region, first, pages) == FREEHOLD_INVALID);
        CHECK(freehold_unlock(reservation, region, first, pages) == FREEHOLD_INVALID);
    }
}

/* Two parts of a program that open the same know nothing of each other: what one closes stays open for the other. */
static void opened_twice(freehold_connection *connection, freehold_reservation *reservation, const char *path)
{
    int file = open(path, O_RDONLY);
    CHECK(file >= 0);
    freehold_region_options spec = {
        .size = sizeof spec, .name = "twice", .pages = 4, .kind = FREEHOLD_SHARED};
    freehold_region *regions[2][2];
    for (int at = 0; at < 2; at++) {
        OK(freehold_region_open(connection, &spec, &regions[0][at]));
        OK(freehold_file_open(connection, file, path, 0, &regions[1][at]));
    }
    close(file);
    for (int of = 0; of < 2; of++) {
        freehold_task *task = NULL;
        freehold_mapping *mapping = NULL;
        OK(freehold_region_close(regions[of][0]));
        OK(freehold_task_add(connection, reservation, 0, "second", &task));
        OK(freehold_map(task, regions[of][1], &mapping));
        OK(freehold_lock(reservation, regions[of][1], 0, 1));
        (void)*(volatile char *)freehold_address(mapping);
        OK(freehold_unlock(reservation, regions[of][1], 0, 1));
        OK(freehold_unmap(mapping));
        OK(freehold_task_end(task));
        OK(freehold_region_close(regions[of][1]));
    }
}

static void files(freehold_connection *connection, freehold_reservation *reservation, const char *path)
{
    int file = open(path, O_RDONLY);
    CHECK(file >= 0);
    freehold_region *region = NULL;
    freehold_task *task = NULL;
    freehold_mapping *mapping = NULL;
    uint32_t pages = 0;
    OK(freehold_file_open(connection, file, path, FREEHOLD_CONSERVE, &region));
    OK(freehold_region_pages(region, &pages));
    OK(freehold_task_add(connection, reservation, 0, "reader", &task));
    OK(freehold_map(task, region, &mapping));
    const unsigned char *content = freehold_address(mapping);
    unsigned char expected[PAGE];
    for (uint32_t page = 0; page < pages; page++) {
        memset(expected, 0, sizeof expected);
        CHECK(pread(file, expected, PAGE, (off_t)page * PAGE) >= 0);
        CHECK(memcmp(content + (size_t)page * PAGE, expected, PAGE) == 0);
    }
    CHECK(count(task).file_reads >= 1);
    CHECK(freehold_file_open(connection, 9999, path, 0, &region) == FREEHOLD_INVALID);
    close(file);
    OK(freehold_unmap(mapping));
    OK(freehold_task_end(task));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    freehold_connection *connection = NULL;
    freehold_options options = {.size = sizeof options, .name = "served.c", .agent_priority = FREEHOLD_ORDINARY};
    OK(freehold_connect(&options, &connection));
    freehold_reservation *reservation = NULL, *refused = NULL;
    OK(freehold_reserve(connection, "c", FRAMES, FREEHOLD_HARD, &reservation));
    CHECK(freehold_reserve(connection, "much", 1u << 30, FREEHOLD_HARD, &refused) == FREEHOLD_EXHAUSTED);
    CHECK(refused == NULL);
    CHECK(freehold_reserve(connection, "kind", 1, 7, &refused) == FREEHOLD_INVALID);

    freehold_region *region = NULL;
    freehold_region_options spec = {
        .size = sizeof spec, .name = "memory", .pages = PAGES, .kind = FREEHOLD_PRIVATE};
    OK(freehold_region_open(connection, &spec, &region));
    freehold_task *task = NULL;
    freehold_mapping *mapping = NULL;
    OK(freehold_task_add(connection, reservation, 0, "worker", &task));
    OK(freehold_map(task, region, &mapping));
    pages_come_back(task, mapping);
    pins_stay(reservation, task, mapping);
    periods(task, mapping);
    ranges(reservation, task, region);

    char ticket[FREEHOLD_TICKET_SIZE];
    OK(freehold_ticket(reservation, ticket, sizeof ticket));
    children(connection, ticket);
    files(connection, reservation, argv[1]);
    opened_twice(connection, reservation, argv[1]);

    char *status = NULL;
    OK(freehold_ask(connection, FREEHOLD_ASK_STATUS, NULL, &status));
    CHECK(strstr(status, "served.c") != NULL);
    freehold_text_end(status);

    OK(freehold_unmap(mapping));
    OK(freehold_task_end(task));
    OK(freehold_region_close(region));
    OK(freehold_release(reservation));
    OK(freehold_disconnect(connection));
    puts("served: all as it should be");
    return 0;
}
