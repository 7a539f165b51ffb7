/* A device client: FREEHOLD_SOCKET says where the server is, whose devices are `camera` and `decoder`. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, CAMERA = 2048, DECODER = 1024 };

static int says(const char *word)
{
    return strstr(freehold_error(), word) != NULL;
}

static freehold_device_grant grant_of(const freehold_device *device)
{
    freehold_device_grant grant = {.size = sizeof grant};
    OK(freehold_device_grant_of(device, &grant));
    return grant;
}

static void is_zero(const freehold_device *device)
{
    const uint64_t *words = freehold_device_address(device);
    for (size_t at = 0; at < freehold_device_length(device) / sizeof *words; at++) {
        CHECK(words[at] == 0);
    }
}

static void wrong_arguments(void)
{
    freehold_device *device = (freehold_device *)&device;
    freehold_device_options options = {.size = sizeof options};
    CHECK(freehold_device_open(NULL, &device) == FREEHOLD_INVALID && device == NULL);
    CHECK(freehold_device_open(&options, &device) == FREEHOLD_INVALID && says("name is null"));
    CHECK(freehold_device_open(&options, NULL) == FREEHOLD_INVALID);
    options.name = "camera";
    options.reserved = 1;
    CHECK(freehold_device_open(&options, &device) == FREEHOLD_INVALID && says("reserved"));
    options.reserved = 0;
    options.used = CAMERA + 1;
    CHECK(freehold_device_open(&options, &device) == FREEHOLD_INVALID && device == NULL);
    options.used = 0;
    options.name = "nothing";
    CHECK(freehold_device_open(&options, &device) == FREEHOLD_UNKNOWN && says("nothing"));
    options.socket = "/nowhere/freehold.sock";
    CHECK(freehold_device_open(&options, &device) == FREEHOLD_NO_SERVER && says("/nowhere/freehold.sock"));
    CHECK(freehold_device_grow(NULL, 1) == FREEHOLD_INVALID);
    CHECK(freehold_device_address(NULL) == NULL && freehold_device_length(NULL) == 0);
    OK(freehold_device_close(NULL));
}

/* The memory objects are those that are mapped, one behind the other. */
static void descriptors_are_the_memory(const freehold_device *device)
{
    freehold_device_grant grant = grant_of(device);
    uint64_t *words = freehold_device_address(device);
    size_t begin = 0, length = 0;
    int descriptor = -1;
    for (uint32_t which = 0; which < grant.descriptors; which++) {
        struct stat facts;
        uint64_t found = 0;
        OK(freehold_device_descriptor(device, which, &descriptor, &length));
        CHECK(fstat(descriptor, &facts) == 0 && (size_t)facts.st_size == length);
        words[begin / sizeof *words] = 0x5000 + which;
        CHECK(pread(descriptor, &found, sizeof found, 0) == sizeof found && found == 0x5000 + which);
        CHECK(ftruncate(descriptor, 0) != 0 && ftruncate(descriptor, (off_t)length * 2) != 0);
        begin += length;
    }
    CHECK(begin == freehold_device_length(device));
    CHECK(freehold_device_descriptor(device, grant.descriptors, &descriptor, &length) == FREEHOLD_INVALID);
    CHECK(freehold_device_descriptor(device, 0, NULL, &length) == FREEHOLD_INVALID);
}

static void grows(void)
{
    freehold_device *device = NULL, *second = NULL;
    freehold_device_options options = {.size = sizeof options, .name = "camera", .used = 1};
    OK(freehold_device_open(&options, &device));
    freehold_device_grant grant = grant_of(device);
    CHECK(grant.pages == CAMERA && grant.used >= 1 && grant.used < CAMERA && grant.trusted == 0);
    CHECK(freehold_device_length(device) == (size_t)grant.used * PAGE);
    CHECK(grant.total_ns >= grant.wait_ns + grant.choose_ns + grant.zero_ns);
    CHECK(grant.contiguity <= FREEHOLD_PIECES && (grant.contiguity != FREEHOLD_PHYSICAL || grant.pieces == 1));
    is_zero(device);
    memset(freehold_device_address(device), 7, freehold_device_length(device));
    CHECK(freehold_device_open(&options, &second) == FREEHOLD_STATE && second == NULL && says("in use"));
    CHECK(freehold_device_grow(device, CAMERA + 1) == FREEHOLD_INVALID);
    OK(freehold_device_grow(device, 0));
    CHECK(freehold_device_length(device) == (size_t)CAMERA * PAGE && grant_of(device).used == CAMERA);
    size_t sevens = 0, zeros = 0;
    const char *bytes = freehold_device_address(device);
    for (size_t at = 0; at < freehold_device_length(device); at++) {
        sevens += bytes[at] == 7;
        zeros += bytes[at] == 0;
    }
    CHECK(sevens == (size_t)grant.used * PAGE && sevens + zeros == freehold_device_length(device));
    descriptors_are_the_memory(device);
    OK(freehold_device_close(device));
    CHECK(freehold_device_grow(device, 0) == FREEHOLD_INVALID);
}

/* What is closed can be opened at once, and nothing of what was written comes back. */
static void opens_again(void)
{
    freehold_device_options options = {.size = sizeof options, .name = "decoder"};
    for (int round = 0; round < 20; round++) {
        freehold_device *device = NULL;
        OK(freehold_device_open(&options, &device));
        CHECK(freehold_device_length(device) == (size_t)DECODER * PAGE);
        is_zero(device);
        memset(freehold_device_address(device), 0xa5, freehold_device_length(device));
        OK(freehold_device_close(device));
    }
}

/* A child has none of the memory, and takes nothing from the parent by closing. */
static void forks(void)
{
    freehold_device *device = NULL;
    freehold_device_options options = {.size = sizeof options, .name = "decoder", .used = 1};
    OK(freehold_device_open(&options, &device));
    memset(freehold_device_address(device), 3, freehold_device_length(device));
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char *place = freehold_device_address(device);
        size_t length = freehold_device_length(device);
        /* The addresses are free here: something else may come to lie in them. */
        char *other = mmap(place, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(other == place);
        memset(other, 9, length);
        CHECK(freehold_device_grow(device, 0) == FREEHOLD_FORKED);
        OK(freehold_device_close(device));
        CHECK(other[0] == 9 && other[length - 1] == 9);
        exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    const char *bytes = freehold_device_address(device);
    CHECK(bytes[0] == 3 && bytes[freehold_device_length(device) - 1] == 3);
    OK(freehold_device_grow(device, 0));
    CHECK(freehold_device_length(device) == (size_t)DECODER * PAGE);
    OK(freehold_device_close(device));
}

int main(void)
{
    wrong_arguments();
    grows();
    opens_again();
    forks();
    puts("devices: all as it should be");
    return 0;
}
