/* Message queues: Linux's own, under names that only this user's modules use. */
#ifdef FREEHOLD_RTL_SYSTEM
#include_next <mqueue.h>
#elif !defined(FREEHOLD_RTL_MQUEUE_H)
#define FREEHOLD_RTL_MQUEUE_H
#include <freehold_rtl.h>
#include_next <mqueue.h>
extern mqd_t rtl_mq_open(const char *name, int flags, const struct mq_attr *attributes);
extern int rtl_mq_unlink(const char *name);
extern int rtl_mq_close(mqd_t queue);
extern int rtl_mq_attributes(mqd_t queue, const struct mq_attr *attributes, struct mq_attr *before);
extern int
rtl_mq_send(mqd_t queue, const char *message, size_t bytes, unsigned priority, const struct timespec *until);
extern ssize_t
rtl_mq_receive(mqd_t queue, char *buffer, size_t bytes, unsigned *priority, const struct timespec *until);
extern int rtl_mq_notify(void) RTL_LEFT_OUT("queues send no signals of RTLinux's; have a thread receive");
static __inline__ mqd_t __attribute__((unused)) rtl_mq_open_with(const char *name, int flags, ...)
{
    const struct mq_attr *attributes = 0;
    va_list arguments;
    va_start(arguments, flags);
    if (flags & O_CREAT) {
        (void)va_arg(arguments, unsigned);
        attributes = va_arg(arguments, const struct mq_attr *);
    }
    va_end(arguments);
    return rtl_mq_open(name, flags, attributes);
}
#define mq_open rtl_mq_open_with
#define mq_unlink rtl_mq_unlink
#define mq_close rtl_mq_close
#define mq_getattr(queue, place) rtl_mq_attributes((queue), 0, (place))
#define mq_setattr(queue, attributes, before) rtl_mq_attributes((queue), (attributes), (before))
#define mq_send(queue, message, bytes, priority) rtl_mq_send((queue), (message), (bytes), (priority), 0)
#define mq_timedsend rtl_mq_send
#define mq_receive(queue, buffer, bytes, priority) rtl_mq_receive((queue), (buffer), (bytes), (priority), 0)
#define mq_timedreceive rtl_mq_receive
#define mq_notify(arguments...) rtl_mq_notify()
#endif
