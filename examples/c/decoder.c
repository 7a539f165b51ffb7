/*
 * A video decoder that needs frame buffers while it plays and none otherwise. Until it opens its device the memory
 * caches files for everybody; the open gives all of it at once, and is never refused for want of memory.
 *
 *     cc decoder.c -o decoder $(pkg-config --cflags --libs freehold)
 *     printf '[[device]]\nname = "decoder"\nsize = "36MiB"\n' > devices.toml
 *     freehold serve --pool 128MiB --devices devices.toml &
 *     ./decoder decoder
 */
#include <freehold.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, FRAMES = 60 };

/* Every call says how it ended, and freehold_error() says it in words. */
static void must(freehold_status status)
{
    if (status != FREEHOLD_OK) {
        fprintf(stderr, "decoder: %s\n", freehold_error());
        exit(1);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: decoder DEVICE\n");
        return 2;
    }
    /* A small picture first: a part of the memory is enough, and the rest goes on caching files. */
    freehold_device *device = NULL;
    freehold_device_options options = {.size = sizeof options, .name = argv[1], .used = 1};
    must(freehold_device_open(&options, &device));

    /* Then a large one. What is new can lie before what there was, so the address is asked for again. */
    must(freehold_device_grow(device, 0));
    char *buffer = freehold_device_address(device);
    size_t length = freehold_device_length(device);
    for (int frame = 0; frame < FRAMES; frame++) {
        size_t begin = (size_t)frame * PAGE % length;
        memset(buffer + begin, frame, PAGE);
    }

    /* A driver would get the memory objects themselves. */
    int descriptor = -1;
    size_t part = 0;
    must(freehold_device_descriptor(device, 0, &descriptor, &part));

    freehold_device_grant grant = {.size = sizeof grant};
    must(freehold_device_grant_of(device, &grant));
    printf("%s: %" PRIu32 " of %" PRIu32 " pages in %" PRIu32 " memory objects, opened in %" PRIu64 " us, %" PRIu32
           " cached pages went\n",
           argv[1], grant.used, grant.pages, grant.descriptors, grant.total_ns / 1000, grant.discarded);
    must(freehold_device_close(device));
    return 0;
}
