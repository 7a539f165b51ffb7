/*
 * A camera that grabs a frame every 5 ms into a ring of 16 buffers, under a reservation: whatever else the machine does,
 * the buffers stay in memory.
 *
 *     cc camera.c -o camera $(pkg-config --cflags --libs freehold)
 *     freehold serve --pool 64MiB &
 *     ./camera
 */
#include <freehold.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, FRAME_PAGES = 4, FRAMES_IN_RING = 16, RING_PAGES = FRAME_PAGES * FRAMES_IN_RING };

/* Every call says how it ended, and freehold_error() says it in words. */
static void must(freehold_status status)
{
    if (status != FREEHOLD_OK) {
        fprintf(stderr, "camera: %s\n", freehold_error());
        exit(1);
    }
}

int main(void)
{
    freehold_connection *connection = NULL;
    freehold_options options = {.size = sizeof options, .name = "camera"};
    must(freehold_connect(&options, &connection));

    /* Room for the ring, and a little more: of what is locked, 8 frames of a reservation must be left. */
    freehold_reservation *reservation = NULL;
    must(freehold_reserve(connection, "camera", RING_PAGES + 16, FREEHOLD_HARD, &reservation));

    freehold_region *ring = NULL;
    freehold_region_options spec = {
        .size = sizeof spec, .name = "ring", .pages = RING_PAGES, .kind = FREEHOLD_PRIVATE};
    must(freehold_region_open(connection, &spec, &ring));

    freehold_task *task = NULL;
    freehold_mapping *mapping = NULL;
    must(freehold_task_add(connection, reservation, 0, "grab", &task));
    must(freehold_map(task, ring, &mapping));
    char *buffers = freehold_address(mapping);

    /* A device writes to the ring: its pages are brought in before the first job, and never move. */
    must(freehold_pin(reservation, mapping, buffers, freehold_length(mapping)));

    freehold_periodic *periodic = NULL;
    freehold_periodic_options periods = {
        .size = sizeof periods, .period_ns = 5000000, .duration_ns = 100000000};
    must(freehold_periodic_begin(task, &periods, &periodic));
    freehold_status status;
    uint64_t grabbed = 0;
    while ((status = freehold_periodic_wait(periodic)) == FREEHOLD_OK) {
        memset(buffers + (grabbed % FRAMES_IN_RING) * FRAME_PAGES * PAGE, (int)grabbed, FRAME_PAGES * PAGE);
        grabbed++;
    }
    if (status != FREEHOLD_OVER) {
        must(status);
    }

    freehold_tally tally = {.size = sizeof tally};
    freehold_counts counts = {.size = sizeof counts};
    must(freehold_tally_of(periodic, &tally));
    must(freehold_count(task, &counts));
    printf("%" PRIu64 " frames, %" PRIu64 " late, worst after %" PRIu64 " us, %" PRIu64 " swap-ins\n", tally.jobs,
           tally.misses, tally.worst_response_ns / 1000, counts.swap_ins);

    must(freehold_periodic_end(periodic));
    must(freehold_unpin(reservation, mapping, buffers, freehold_length(mapping)));
    must(freehold_unmap(mapping));
    must(freehold_task_end(task));
    must(freehold_region_close(ring));
    must(freehold_release(reservation));
    must(freehold_disconnect(connection));
    return 0;
}
