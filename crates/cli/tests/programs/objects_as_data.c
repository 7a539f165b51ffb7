/* A program that has object files mapped as data, as tools that read symbols do, next to where the dynamic linker puts
 * the same files and elsewhere: in whole and their first page alone, unmapped by another thread or cut short meanwhile.
 * What it loads does what it should. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096, ROUNDS = 20 };

static const struct {
    const char *library, *function;
} loaded[] = {{"libm.so.6", "cos"}, {"libz.so.1", "zlibVersion"}, {"libresolv.so.2", "ns_get16"}, {"librt.so.1", 0}};

enum { LIBRARIES = sizeof loaded / sizeof *loaded };

static char paths[LIBRARIES][4096];
static size_t spans[LIBRARIES];
static volatile int over;

static int open_library(int which, size_t *bytes) {
    struct stat at;
    int fd = paths[which][0] ? open(paths[which], O_RDONLY) : -1;
    *bytes = fd >= 0 && !fstat(fd, &at) ? (size_t)at.st_size : 0;
    return fd;
}

static int span_of(struct dl_phdr_info *object, size_t size, void *data) {
    size_t end = 0;
    (void)size;
    for (int at = 0; at < object->dlpi_phnum; at++)
        if (object->dlpi_phdr[at].p_type == PT_LOAD)
            end = object->dlpi_phdr[at].p_vaddr + object->dlpi_phdr[at].p_memsz;
    for (int at = 0; at < LIBRARIES; at++)
        if (!strcmp(object->dlpi_name, paths[at])) spans[at] = (end + PAGE - 1) / PAGE * PAGE;
    (void)data;
    return 0;
}

/* Loads a library and asks it something; "-" where this machine has none. */
static const char *ask(int which, void **handle) {
    static char answer[64];
    *handle = dlopen(loaded[which].library, RTLD_NOW);
    if (!*handle) return "-";
    if (!loaded[which].function) return "loaded";
    void *function = dlsym(*handle, loaded[which].function);
    if (!function) return "no function";
    if (which == 0) snprintf(answer, sizeof answer, "%.6f", ((double (*)(double))function)(1.0));
    if (which == 1) snprintf(answer, sizeof answer, "%s", ((const char *(*)(void))function)());
    if (which == 2) snprintf(answer, sizeof answer, "%u", ((unsigned (*)(const unsigned char *))function)((void *)"\1\2"));
    return answer;
}

/* The file as data right below a hole that its library fits into, or above it. */
static void *beside(int which, int pages, int above) {
    size_t bytes, room = spans[which];
    int fd = open_library(which, &bytes);
    if (fd < 0 || !room) return MAP_FAILED;
    size_t data = pages ? (size_t)pages * PAGE : (bytes + PAGE - 1) / PAGE * PAGE;
    char *whole = mmap(0, room + data, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *place = above ? whole + room : whole;
    mmap(place, data, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
    close(fd);
    munmap(above ? whole : whole + data, room);
    return place;
}

static void *come_and_go(void *unused) {
    char name[] = "/tmp/objects-XXXXXX";
    int copy = mkstemp(name);
    unlink(name);
    for (unsigned turn = 0; !over; turn++) {
        size_t bytes;
        int fd = open_library(turn % LIBRARIES, &bytes);
        if (fd < 0) continue;
        char first[PAGE] = "";
        if (pread(fd, first, PAGE, 0) > 0 && pwrite(copy, first, PAGE, 0) == PAGE) {
            void *own = mmap(0, PAGE, PROT_READ, MAP_PRIVATE, copy, 0);
            void *data = mmap(0, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
            if (ftruncate(copy, 0)) _exit(4);
            munmap(data, PAGE);
            munmap(own, PAGE);
        }
        close(fd);
    }
    return unused;
}

int main(void) {
    void *handle;
    pthread_t thread;
    for (int which = 0; which < LIBRARIES; which++) {
        struct link_map *map;
        if (strcmp(ask(which, &handle), "-") && !dlinfo(handle, RTLD_DI_LINKMAP, &map)) {
            snprintf(paths[which], sizeof paths[which], "%s", map->l_name);
            dl_iterate_phdr(span_of, 0);
            dlclose(handle);
        }
    }
    for (int way = 0; way < 6; way++)
        for (int which = 0; which < LIBRARIES; which++) {
            void *data = beside(which, way / 2, way % 2);
            const char *answer = ask(which, &handle);
            char first[4] = "";
            if (data != MAP_FAILED) memcpy(first, (char *)data + 1, 3);
            printf("%d %s: %s, data %s\n", way, loaded[which].library, answer, first);
            if (handle) dlclose(handle);
        }
    if (pthread_create(&thread, 0, come_and_go, 0)) return 1;
    for (int round = 0; round < ROUNDS; round++)
        for (int which = 0; which < LIBRARIES; which++) {
            const char *answer = ask(which, &handle);
            if (round == ROUNDS - 1) printf("%s: %s\n", loaded[which].library, answer);
            if (handle) dlclose(handle);
        }
    over = 1;
    pthread_join(thread, 0);
    return 0;
}
