/* Preloaded into programs of the experiment. FREEHOLD_ONE_THREAD: new threads do their work at once, in the thread that
 * makes them. Ranger makes a thread for each prediction, which would not have its maker's scheduling class.
 * FREEHOLD_LOCK_ALL: mlockall, which is lost at exec and cannot be asked for from outside; of what is touched, as pinning
 * all pages does.
 *
 * cc -O2 -shared -fPIC -o preload.so preload.c -ldl */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int one_thread;

__attribute__((constructor)) static void begin(void) {
  one_thread = getenv("FREEHOLD_ONE_THREAD") != NULL;
  if (getenv("FREEHOLD_LOCK_ALL") && mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)) {
    fprintf(stderr, "mlockall: %s\n", strerror(errno));
    _exit(1);
  }
}

typedef int create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
typedef int join(pthread_t, void **);

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*work)(void *), void *argument) {
  if (!one_thread)
    return ((create *)dlsym(RTLD_NEXT, "pthread_create"))(thread, attributes, work, argument);
  *thread = pthread_self();
  work(argument);
  return 0;
}

int pthread_join(pthread_t thread, void **result) {
  if (!one_thread || !pthread_equal(thread, pthread_self()))
    return ((join *)dlsym(RTLD_NEXT, "pthread_join"))(thread, result);
  if (result)
    *result = NULL;
  return 0;
}
