/* Wrong arguments are refused, with words, and nothing else happens. Needs no server. */
#include "check.h"

#include <stdint.h>
#include <string.h>

static int says(const char *word)
{
    return strstr(freehold_error(), word) != NULL;
}

static void connecting(void)
{
    freehold_connection *connection = (freehold_connection *)&connection;
    freehold_options options = {.size = sizeof options, .socket = "/nowhere/freehold.sock"};
    CHECK(freehold_connect(&options, NULL) == FREEHOLD_INVALID);
    CHECK(freehold_connect(&options, &connection) == FREEHOLD_NO_SERVER);
    CHECK(connection == NULL);
    CHECK(says("/nowhere/freehold.sock") && says("freehold serve"));
    options.size = 0;
    CHECK(freehold_connect(&options, &connection) == FREEHOLD_INVALID && says("sizeof"));
    options.size = sizeof options;
    options.name = "\xff";
    CHECK(freehold_connect(&options, &connection) == FREEHOLD_INVALID && says("UTF-8"));
    options.name = NULL;
    options.reserved = 1;
    CHECK(freehold_connect(&options, &connection) == FREEHOLD_INVALID);

    /* A program that is newer than the library, and asks for nothing that the library does not know. */
    struct {
        freehold_options known;
        uint64_t unknown;
    } newer = {.known = {.size = sizeof newer, .socket = "/nowhere/freehold.sock"}};
    CHECK(freehold_connect(&newer.known, &connection) == FREEHOLD_NO_SERVER);
    newer.unknown = 1;
    CHECK(freehold_connect(&newer.known, &connection) == FREEHOLD_INVALID);
}

static void objects(void)
{
    freehold_reservation *reservation = NULL;
    freehold_region *region = NULL;
    freehold_task *task = NULL;
    freehold_mapping *mapping = NULL;
    freehold_counts counts = {.size = sizeof counts};
    freehold_region_options options = {.size = sizeof options, .name = "region", .pages = 1};
    char *text = NULL;
    uint32_t number = 0;
    char ticket[FREEHOLD_TICKET_SIZE];

    CHECK(freehold_reserve(NULL, "r", 1, FREEHOLD_HARD, &reservation) == FREEHOLD_INVALID && says("connection"));
    CHECK(freehold_join(NULL, "", &reservation) == FREEHOLD_INVALID);
    CHECK(freehold_frames(NULL, &number) == FREEHOLD_INVALID && says("reservation is null"));
    CHECK(freehold_ticket(NULL, ticket, sizeof ticket) == FREEHOLD_INVALID);
    CHECK(freehold_region_open(NULL, &options, &region) == FREEHOLD_INVALID);
    CHECK(freehold_file_open(NULL, 0, "file", 0, &region) == FREEHOLD_INVALID);
    CHECK(freehold_region_pages(NULL, &number) == FREEHOLD_INVALID);
    CHECK(freehold_task_add(NULL, NULL, 0, "task", &task) == FREEHOLD_INVALID);
    CHECK(freehold_count(NULL, &counts) == FREEHOLD_INVALID);
    CHECK(freehold_map(NULL, NULL, &mapping) == FREEHOLD_INVALID);
    CHECK(freehold_map_part(NULL, NULL, 0, 1, &mapping) == FREEHOLD_INVALID);
    CHECK(freehold_lock(NULL, NULL, 0, 1) == FREEHOLD_INVALID);
    CHECK(freehold_unlock(NULL, NULL, 0, 1) == FREEHOLD_INVALID);
    CHECK(freehold_pin(NULL, NULL, NULL, 1) == FREEHOLD_INVALID);
    CHECK(freehold_unpin(NULL, NULL, NULL, 1) == FREEHOLD_INVALID);
    CHECK(freehold_shortfalls(NULL, &text) == FREEHOLD_INVALID);
    CHECK(freehold_ask(NULL, FREEHOLD_ASK_STATUS, NULL, &text) == FREEHOLD_INVALID);
    CHECK(freehold_address(NULL) == NULL && freehold_length(NULL) == 0);

    /* What is null is ended without effect. */
    OK(freehold_unmap(NULL));
    OK(freehold_task_end(NULL));
    OK(freehold_region_close(NULL));
    OK(freehold_release(NULL));
    OK(freehold_disconnect(NULL));
    OK(freehold_periodic_end(NULL));
    freehold_text_end(NULL);
}

static void periods(void)
{
    freehold_periodic *periodic = NULL;
    freehold_periodic_options options = {.size = sizeof options};
    freehold_tally tally = {.size = sizeof tally};
    CHECK(freehold_periodic_begin(NULL, &options, &periodic) == FREEHOLD_INVALID && says("period"));
    options.period_ns = 1000000;
    options.scheduling = 9;
    CHECK(freehold_periodic_begin(NULL, &options, &periodic) == FREEHOLD_INVALID);
    options.scheduling = FREEHOLD_AS_IS;
    options.duration_ns = 3000000;
    OK(freehold_periodic_begin(NULL, &options, &periodic));
    int jobs = 0;
    freehold_status status;
    while ((status = freehold_periodic_wait(periodic)) == FREEHOLD_OK) {
        jobs++;
        OK(freehold_tally_of(periodic, &tally));
        CHECK(tally.jobs == (uint64_t)jobs - 1 && tally.misses <= tally.jobs);
    }
    CHECK(status == FREEHOLD_OVER && jobs >= 1 && jobs <= 3);
    OK(freehold_tally_of(periodic, &tally));
    CHECK(tally.jobs == (uint64_t)jobs && tally.worst_response_ns >= tally.last_response_ns);
    tally.size = 8;
    CHECK(freehold_tally_of(periodic, &tally) == FREEHOLD_INVALID);
    /* Another kind of object. */
    CHECK(freehold_count((freehold_task *)periodic, NULL) == FREEHOLD_INVALID && says("no task"));
    OK(freehold_periodic_end(periodic));
}

int main(void)
{
    CHECK(strlen(freehold_error()) == 0);
    CHECK(strlen(freehold_version()) > 0);
    connecting();
    objects();
    periods();
    puts("arguments: all refused");
    return 0;
}
