/*
 * Freehold: memory reservations for real-time tasks. For programs that cooperate with the memory server, `freehold serve`.
 *
 * Made by cbindgen from crates/capi/src; do not edit. `pkg-config --cflags --libs freehold` says how to build with it.
 *
 * Every function that can fail returns a freehold_status; freehold_error() tells the same in words. Objects belong to
 * the caller, who ends each with the function named for that, once, and not while another thread uses it. Apart from
 * that every function may be called in any thread. A null object is ended without effect, and refused elsewhere.
 *
 * Structures of options and results begin with their size, which the caller sets to sizeof of the structure it was
 * compiled with: so programs and libraries of different age understand each other.
 *
 * Memory that is mapped here comes and goes. An access to an absent page waits until the server has brought it; one
 * that cannot be brought raises SIGBUS. When the server ends, a process that has something mapped is ended with a
 * message. A child of a fork has none of the mappings; it connects anew.
 */

#ifndef FREEHOLD_H
#define FREEHOLD_H

#include <stddef.h>
#include <stdint.h>

// For `freehold_options.agent_priority`: among ordinary threads.
#define FREEHOLD_ORDINARY UINT32_MAX

// For `freehold_ask`: all reservations, clients, objects, the pool and the store, as JSON.
#define FREEHOLD_ASK_STATUS 1

// For `freehold_ask`: the same in Prometheus' text format.
#define FREEHOLD_ASK_METRICS 2

// For `freehold_ask`: one target, a process id, `pid:0xADDRESS`, a reservation or a region, as JSON.
#define FREEHOLD_ASK_EXPLAIN 3

// For `freehold_ask`: whether a reservation of the target size (`30MiB`, `30MiB firm`) would be admitted, as JSON.
#define FREEHOLD_ASK_WHAT_IF 4

// In `freehold_device_grant.contiguity`: nobody may see how the memory lies.
#define FREEHOLD_CONTIGUITY_UNKNOWN 0

// In `freehold_device_grant.contiguity`: the memory is one piece of the machine's.
#define FREEHOLD_PHYSICAL 1

// In `freehold_device_grant.contiguity`: the memory lies in several pieces.
#define FREEHOLD_PIECES 2

// For `freehold_periodic_options.scheduling`: as the thread is.
#define FREEHOLD_AS_IS 0

// For `freehold_periodic_options.scheduling`: SCHED_FIFO at `priority`.
#define FREEHOLD_FIFO 1

// For `freehold_periodic_options.scheduling`: SCHED_DEADLINE with `budget_ns` in each period.
#define FREEHOLD_DEADLINE 2

// For `freehold_region_options.kind`: for the tasks of this program.
#define FREEHOLD_PRIVATE 1

// For `freehold_region_options.kind`: for whoever opens the same name.
#define FREEHOLD_SHARED 2

// For `regime`: Shared-Page Conservation, and the eviction lock where pages are locked. 0 means this too.
#define FREEHOLD_CONSERVE 1

// For `regime`: pages may be taken by any sharer's eviction, for comparison.
#define FREEHOLD_UNMANAGED 2

// For `freehold_reserve`: never more than its frames.
#define FREEHOLD_HARD 1

// For `freehold_reserve`: may borrow frames that nobody has reserved.
#define FREEHOLD_FIRM 2

// Bytes of a ticket's text, with the zero byte at its end.
#define FREEHOLD_TICKET_SIZE 33

// How a call ended.
typedef enum freehold_status {
    // Done.
    FREEHOLD_OK = 0,
    // The caller's mistake: an argument is null, out of range, of an unknown kind, or an object that was ended.
    FREEHOLD_INVALID = 1,
    // No server answers.
    FREEHOLD_NO_SERVER = 2,
    // The user may not do this.
    FREEHOLD_FORBIDDEN = 3,
    // Pool, quota or a table is exhausted.
    FREEHOLD_EXHAUSTED = 4,
    // A name or object means nothing to the server.
    FREEHOLD_UNKNOWN = 5,
    // It cannot be done in the present state.
    FREEHOLD_STATE = 6,
    // The server is gone, or ending.
    FREEHOLD_GONE = 7,
    // The server speaks another version, or nonsense.
    FREEHOLD_PROTOCOL = 8,
    // The kernel refused.
    FREEHOLD_SYSTEM = 9,
    // The object belongs to the parent of a fork.
    FREEHOLD_FORKED = 10,
    // A bug of this library.
    FREEHOLD_BUG = 11,
    // The periodic task's time is over.
    FREEHOLD_OVER = 12,
} freehold_status;

// A connection to the server. It lasts until it and everything made through it has been ended.
typedef struct freehold_connection freehold_connection;

// An open device.
typedef struct freehold_device freehold_device;

// A region as one task sees it.
typedef struct freehold_mapping freehold_mapping;

// A thread that works in periods.
typedef struct freehold_periodic freehold_periodic;

// A region of memory, or a file's content.
typedef struct freehold_region freehold_region;

// A reservation: frames that are there for its tasks alone.
typedef struct freehold_reservation freehold_reservation;

// A task: in whose mappings faults are served on its reservation's account.
typedef struct freehold_task freehold_task;

// How to connect.
typedef struct freehold_options {
    // sizeof(freehold_options).
    size_t size;
    // The server's socket; null for the default: that of FREEHOLD_SOCKET, the user's own server, or the system's.
    const char *socket;
    // What the program is called in reports; null for `libfreehold`.
    const char *name;
    // SCHED_FIFO priority of the thread that gives pages back, 0 for the default, FREEHOLD_ORDINARY for none.
    uint32_t agent_priority;
    // 0.
    uint32_t reserved;
} freehold_options;

// A device to be opened.
typedef struct freehold_device_options {
    // sizeof(freehold_device_options).
    size_t size;
    // Its name in the device file.
    const char *name;
    // The socket of the server or mount; null for the default: that of FREEHOLD_SOCKET, the user's own server, or the
    // system's.
    const char *socket;
    // Pages of 4096 bytes that are used; 0 for all.
    uint32_t used;
    // 0.
    uint32_t reserved;
} freehold_device_options;

// What an opening gave. Numbers of pages are of 4096 bytes.
typedef struct freehold_device_grant {
    // sizeof(freehold_device_grant).
    size_t size;
    // Pages that the device has at most.
    uint32_t pages;
    // Pages that it uses now.
    uint32_t used;
    // The first page that it was opened with, in the region of all devices.
    uint32_t first;
    // FREEHOLD_PHYSICAL, FREEHOLD_PIECES or FREEHOLD_CONTIGUITY_UNKNOWN, of what it was opened with.
    uint32_t contiguity;
    // In how many pieces; 0 where that is unknown.
    uint32_t pieces;
    // Memory objects that it has now.
    uint32_t descriptors;
    // 1 where the memory came as it was, 0 where it was filled with zeros.
    uint32_t trusted;
    // Cached pages that went for the opening.
    uint32_t discarded;
    // How long the server waited for copies and for the device's own return.
    uint64_t wait_ns;
    // How long the server chose the place.
    uint64_t choose_ns;
    // How long the server filled the memory with zeros.
    uint64_t zero_ns;
    // How long the server took in all.
    uint64_t total_ns;
} freehold_device_grant;

// How a thread works in periods.
typedef struct freehold_periodic_options {
    // sizeof(freehold_periodic_options).
    size_t size;
    // Nanoseconds between releases.
    uint64_t period_ns;
    // By when, after its release, a job is to be done; 0 for the period.
    uint64_t deadline_ns;
    // CPU time of a job, for FREEHOLD_DEADLINE.
    uint64_t budget_ns;
    // After how long there are no more releases; 0 for never.
    uint64_t duration_ns;
    // The CPUs to stay on, a bit for each; 0 for those of the thread. Not with FREEHOLD_DEADLINE.
    uint64_t cpus;
    // One of FREEHOLD_AS_IS, FREEHOLD_FIFO, FREEHOLD_DEADLINE.
    uint32_t scheduling;
    // From 1 to 99, for FREEHOLD_FIFO.
    uint32_t priority;
} freehold_periodic_options;

// What became of a periodic task's jobs so far.
typedef struct freehold_tally {
    // sizeof(freehold_tally).
    size_t size;
    // Jobs that are over.
    uint64_t jobs;
    // Of these, those that ended after their deadline.
    uint64_t misses;
    // The longest time from a release to the job's end.
    uint64_t worst_response_ns;
    // From the last job's release to its end.
    uint64_t last_response_ns;
    // The last job's CPU time.
    uint64_t last_cpu_ns;
    // 1 if the last job ended after its deadline.
    uint64_t last_late;
} freehold_tally;

// A region to be opened.
typedef struct freehold_region_options {
    // sizeof(freehold_region_options).
    size_t size;
    // Its name, among this user's regions. Root and the server's user name another user's with UID: before it.
    const char *name;
    // Its length in pages of 4096 bytes.
    uint32_t pages;
    // FREEHOLD_PRIVATE or FREEHOLD_SHARED.
    uint32_t kind;
    // FREEHOLD_CONSERVE or FREEHOLD_UNMANAGED; the first to open a region decides.
    uint32_t regime;
    // 0.
    uint32_t reserved;
} freehold_region_options;

// What happened to a task so far.
typedef struct freehold_counts {
    // sizeof(freehold_counts).
    size_t size;
    // Faults on resident pages.
    uint64_t soft_faults;
    // First touches filled with zeros.
    uint64_t zero_fills;
    // Pages read back from the store.
    uint64_t swap_ins;
    // Of these, pages that another's eviction took.
    uint64_t shared_swap_ins;
    // First reads of a file's pages.
    uint64_t file_reads;
    // Write-permission faults.
    uint64_t write_faults;
    // Pages taken from its own lists.
    uint64_t evictions;
    // Nanoseconds between fault and resolution, all together.
    uint64_t waited_ns;
} freehold_counts;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Connects to the server, and starts two threads: the one that gives pages back, and one that sleeps until the server
// is gone. `options` may be null.
enum freehold_status freehold_connect(const struct freehold_options *options,
                                      struct freehold_connection **connection);

// Ends a connection. What was made through it stays until it is ended itself.
enum freehold_status freehold_disconnect(struct freehold_connection *connection);

// What the connection has to do without, a line for each, in `*out`, which `freehold_text_end` ends. Empty if nothing.
enum freehold_status freehold_shortfalls(const struct freehold_connection *connection,
                                         char **out);

// Asks the server `question`, one of FREEHOLD_ASK_*, about `target` (null for nothing). The answer is in `*out`, which
// `freehold_text_end` ends.
enum freehold_status freehold_ask(const struct freehold_connection *connection,
                                  uint32_t question,
                                  const char *target,
                                  char **out);

// Ends a text that a function here has given.
void freehold_text_end(char *text);

// Opens a device, and maps its memory in one piece of addresses. Needs no freehold_connection.
enum freehold_status freehold_device_open(const struct freehold_device_options *options,
                                          struct freehold_device **device);

// Gives a device more, up to its size: it uses `used` pages then, all where that is 0. What is new can lie before what
// there was: ask for the address again. What was mapped stays where it is.
enum freehold_status freehold_device_grow(const struct freehold_device *device,
                                          uint32_t used);

// The first byte of a device's memory; null for what is no device.
void *freehold_device_address(const struct freehold_device *device);

// The length of a device's memory in bytes; 0 for what is no device.
size_t freehold_device_length(const struct freehold_device *device);

// What the server said when the device was opened, with what it uses now.
enum freehold_status freehold_device_grant_of(const struct freehold_device *device,
                                              struct freehold_device_grant *grant);

// One of a device's memory objects, in order of address from 0: to be passed to a driver or another process. The
// descriptor stays the library's, which closes it with the device. `length` is in bytes.
enum freehold_status freehold_device_descriptor(const struct freehold_device *device,
                                                uint32_t which,
                                                int *descriptor,
                                                size_t *length);

// Closes a device: its memory is unmapped, its descriptors are closed, and the server takes it back as soon as nobody
// else has it. In a child of a fork only the child's descriptors are closed.
enum freehold_status freehold_device_close(struct freehold_device *device);

// The last failure of a call in this thread, in words: who is at fault and what to do. Never null. It is valid until
// the next failure in this thread.
const char *freehold_error(void);

// The library's version.
const char *freehold_version(void);

// Maps all of a region for a task. Any thread may touch it; what that costs is the task's.
enum freehold_status freehold_map(const struct freehold_task *task,
                                  const struct freehold_region *region,
                                  struct freehold_mapping **mapping);

// Maps `pages` pages of a region, from page `first` on.
enum freehold_status freehold_map_part(const struct freehold_task *task,
                                       const struct freehold_region *region,
                                       uint32_t first,
                                       uint32_t pages,
                                       struct freehold_mapping **mapping);

// The first byte of a mapping; null for what is no mapping. A file's mapping is for reading only.
void *freehold_address(const struct freehold_mapping *mapping);

// The length of a mapping in bytes; 0 for what is no mapping.
size_t freehold_length(const struct freehold_mapping *mapping);

// Brings the pages of `length` bytes from `address` on in and keeps them resident until they are unpinned, as
// `freehold_lock` does, which knows them by number. For memory that a device is to read or write.
enum freehold_status freehold_pin(const struct freehold_reservation *reservation,
                                  const struct freehold_mapping *mapping,
                                  const void *address,
                                  size_t length);

// Ends what `freehold_pin` has begun, for the same pages.
enum freehold_status freehold_unpin(const struct freehold_reservation *reservation,
                                    const struct freehold_mapping *mapping,
                                    const void *address,
                                    size_t length);

// Ends a mapping: its addresses are free for others.
enum freehold_status freehold_unmap(struct freehold_mapping *mapping);

// Makes the calling thread work in periods: gives it its scheduling and CPUs. `task`, which may be null, is told of
// the ends of jobs. The first release is at once, with FREEHOLD_DEADLINE a period later.
enum freehold_status freehold_periodic_begin(const struct freehold_task *task,
                                             const struct freehold_periodic_options *options,
                                             struct freehold_periodic **periodic);

// Ends the job under way, if there is one, sleeps until the next release and begins the next job. Releases never skip:
// a late job delays the next. FREEHOLD_OVER when there are no more. In the thread that called
// `freehold_periodic_begin`.
enum freehold_status freehold_periodic_wait(const struct freehold_periodic *periodic);

// What became of the jobs so far; `tally->size` is set by the caller. In any thread.
enum freehold_status freehold_tally_of(const struct freehold_periodic *periodic,
                                       struct freehold_tally *tally);

// Ends the job under way and the periods; the thread gets back the scheduling it had, but not its CPUs. In the thread
// that began it.
enum freehold_status freehold_periodic_end(struct freehold_periodic *periodic);

// Opens a region, zero at first; a shared one that exists already, with what it holds.
enum freehold_status freehold_region_open(const struct freehold_connection *connection,
                                          const struct freehold_region_options *options,
                                          struct freehold_region **region);

// Opens a file's content for reading, shared with everybody who opens the same file. `file` is a descriptor open for
// reading, which stays the caller's; `path` is for reports.
enum freehold_status freehold_file_open(const struct freehold_connection *connection,
                                        int file,
                                        const char *path,
                                        uint32_t regime,
                                        struct freehold_region **region);

// The length of a region in pages of 4096 bytes.
enum freehold_status freehold_region_pages(const struct freehold_region *region, uint32_t *pages);

// Ends the use of a region. Its mappings stay until they are ended.
enum freehold_status freehold_region_close(struct freehold_region *region);

// Makes a reservation of `frames` pages of memory, of type FREEHOLD_HARD or FREEHOLD_FIRM. Waits while the server
// gathers frames that are in use and that nobody has a claim to.
enum freehold_status freehold_reserve(const struct freehold_connection *connection,
                                      const char *name,
                                      uint32_t frames,
                                      uint32_t kind,
                                      struct freehold_reservation **reservation);

// Joins the reservation of a ticket, which another process has got from `freehold_ticket`.
enum freehold_status freehold_join(const struct freehold_connection *connection,
                                   const char *ticket,
                                   struct freehold_reservation **reservation);

// The frames of a reservation.
enum freehold_status freehold_frames(const struct freehold_reservation *reservation,
                                     uint32_t *frames);

// Writes the reservation's ticket, FREEHOLD_TICKET_SIZE bytes with the zero byte, to `ticket`, which has room for
// `size`. Whoever has the ticket can join.
enum freehold_status freehold_ticket(const struct freehold_reservation *reservation,
                                     char *ticket,
                                     size_t size);

// Brings `pages` pages of a region in, from page `first` on, and keeps them resident until they are unlocked. One of
// the reservation's tasks must have the region mapped.
enum freehold_status freehold_lock(const struct freehold_reservation *reservation,
                                   const struct freehold_region *region,
                                   uint32_t first,
                                   uint32_t pages);

// Unlocks pages.
enum freehold_status freehold_unlock(const struct freehold_reservation *reservation,
                                     const struct freehold_region *region,
                                     uint32_t first,
                                     uint32_t pages);

// Ends a reservation for this program, once its tasks are ended too. Others that joined it keep it.
enum freehold_status freehold_release(struct freehold_reservation *reservation);

// Makes a task in a reservation, or, where that is null, among those without one. `urgency` is from 0 (background) to
// 255; above 0 it needs the right to be real-time.
enum freehold_status freehold_task_add(const struct freehold_connection *connection,
                                       const struct freehold_reservation *reservation,
                                       uint32_t urgency,
                                       const char *name,
                                       struct freehold_task **task);

// Counts what happened to a task so far; `counts->size` is set by the caller.
enum freehold_status freehold_count(const struct freehold_task *task,
                                    struct freehold_counts *counts);

// Ends a task, once its mappings and periodic threads are ended too.
enum freehold_status freehold_task_end(struct freehold_task *task);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FREEHOLD_H */
