/* What the tests say when something is not as it should be: the line, and the library's own words. */
#ifndef CHECK_H
#define CHECK_H

#include <freehold.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition,            \
                    freehold_error());                                                             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define OK(call) CHECK((call) == FREEHOLD_OK)

#endif
