/* Message queues: their order, their limits, their waits, and threads that end in them. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <mqueue.h>
#include <signal.h>
#include <fcntl.h>
#include <errno.h>

static mqd_t queue;
static pthread_t thread;
static volatile int waits = 0, handled = 0;

static void handler(int number) { handled++; }

static void *receive(void *arg)
{
    char buffer[16];
    waits = 1;
    return (void *)(mq_receive(queue, buffer, sizeof buffer, 0) == -1 && errno == EINTR ? 1L : 2L);
}

static void *send_late(void *arg)
{
    usleep(30000);
    mq_send(queue, "late", 5, 0);
    return 0;
}

static void start(void *(*function)(void *))
{
    waits = 0;
    pthread_create(&thread, 0, function, 0);
}

static void until_it_waits(void)
{
    while (!waits) usleep(1000);
    usleep(30000);
}

int init_module(void)
{
    struct mq_attr attributes = { 0, 4, 16, 0 }, now;
    struct timespec soon;
    struct sigaction action;
    char buffer[16];
    unsigned priority;
    int number;
    void *result;
    mqd_t other;
    action.sa_handler = handler;
    action.sa_mask = 0;
    action.sa_flags = 0;
    sigaction(RTL_SIGUSR1, &action, 0);
    mq_unlink("semantics");
    rtl_printf("none: %s\n", mq_open("semantics", O_RDWR) == -1 && errno == ENOENT ? "ENOENT" : "?");
    rtl_printf("no name: %s\n", mq_open("a/b", O_RDWR) == -1 && errno == EINVAL ? "EINVAL" : "?");
    queue = mq_open("semantics", O_RDWR | O_CREAT | O_EXCL, 0644, &attributes);
    rtl_printf("open: %s\n", queue >= 0 ? "yes" : "?");
    other = mq_open("/semantics", O_RDWR | O_NONBLOCK);
    rtl_printf("again: %s\n", other >= 0 && other != queue ? "yes" : "?");
    for (number = 0; number < 4; number++) mq_send(queue, "abcd" + number, 1, number % 2);
    rtl_printf("full: %s\n", mq_send(other, "e", 1, 0) == -1 && errno == EAGAIN ? "EAGAIN" : "?");
    rtl_printf("too long: %s\n", mq_send(queue, buffer, 17, 0) == -1 && errno == EMSGSIZE ? "EMSGSIZE" : "?");
    rtl_printf("attributes: %d\n", mq_getattr(queue, &now));
    rtl_printf("queued: %ld of %ld\n", now.mq_curmsgs, now.mq_maxmsg);
    soon = timespec_from_ns(gethrtime() + 5000000);
    number = mq_timedsend(queue, "e", 1, 0, &soon);
    rtl_printf("no room: %s\n", number == -1 && errno == ETIMEDOUT ? "ETIMEDOUT" : "?");
    for (number = 0; number < 4; number++)
        if (mq_receive(queue, buffer, sizeof buffer, &priority) == 1) rtl_printf("%c of %u\n", buffer[0], priority);
    rtl_printf("empty: %s\n", mq_receive(other, buffer, sizeof buffer, 0) == -1 && errno == EAGAIN ? "EAGAIN" : "?");
    soon = timespec_from_ns(gethrtime() + 5000000);
    number = mq_timedreceive(queue, buffer, sizeof buffer, 0, &soon);
    rtl_printf("nothing comes: %s\n", number == -1 && errno == ETIMEDOUT ? "ETIMEDOUT" : "?");
    rtl_printf("not before: %s\n", gethrtime() >= timespec_to_ns(&soon) ? "yes" : "?");
    soon.tv_nsec = 1000000000;
    number = mq_timedreceive(queue, buffer, sizeof buffer, 0, &soon);
    rtl_printf("no time: %s\n", number == -1 && errno == EINVAL ? "EINVAL" : "?");
    mq_send(queue, "there", 6, 0);
    rtl_printf("not needed: %d\n", (int)mq_timedreceive(queue, buffer, sizeof buffer, 0, &soon));
    start(send_late);
    rtl_printf("waited for: %d\n", (int)mq_receive(queue, buffer, sizeof buffer, 0));
    pthread_join(thread, 0);
    start(receive);
    until_it_waits();
    pthread_kill(thread, RTL_SIGUSR1);
    pthread_join(thread, &result);
    rtl_printf("signal: %s\n", result == (void *)1L && handled == 1 ? "EINTR" : "?");
    start(receive);
    until_it_waits();
    pthread_cancel(thread);
    pthread_join(thread, &result);
    rtl_printf("cancelled: %s\n", result == PTHREAD_CANCELED ? "yes" : "?");
    start(receive);
    until_it_waits();
    rtl_printf("deleted: %d\n", pthread_delete_np(thread));
    rtl_printf("close: %d %d\n", mq_close(queue), mq_close(other));
    rtl_printf("closed: %s\n", mq_close(queue) == -1 && errno == EBADF ? "EBADF" : "?");
    rtl_printf("unlink: %d\n", mq_unlink("semantics"));
    rtl_printf("done\n");
    return 0;
}

void cleanup_module(void) {}
