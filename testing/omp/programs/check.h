/* What the programs beside this check with. A program ends with 1 after the first thing that is not as it should be. */
#ifndef CHECK_H
#define CHECK_H
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            _Exit(1); \
        } \
    } while (0)

#define EQUAL(one, other) \
    do { \
        long one_ = (long)(one), other_ = (long)(other); \
        if (one_ != other_) { \
            fprintf(stderr, "%s:%d: %s is %ld, not %s = %ld\n", __FILE__, __LINE__, #one, one_, #other, other_); \
            _Exit(1); \
        } \
    } while (0)

#endif
