/*
 * Types that several interfaces use.
 *
 * Written by `tombolo idl compile --lang c` from interfaces/common.tbl.
 */
#ifndef TESTING_STAMP_H
#define TESTING_STAMP_H

#include <tombolo/interface.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The longest name, in bytes. */
#define TESTING_MAX_NAME 16

/* A time and a place. */
typedef struct testing_stamp {
    uint64_t at_ns;
    uint16_t node;
} testing_stamp;
/* Length of its fields on the wire, in bytes. */
#define TESTING_STAMP_BYTES 16

static inline void testing_stamp_put(tombolo_writer *w, uint32_t at, const testing_stamp *value)
{
    tombolo_put(w, at, value->at_ns, 8);
    tombolo_put(w, at + 8, value->node, 2);
}

static inline void testing_stamp_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_stamp *value)
{
    value->at_ns = (uint64_t)tombolo_get(r, in, at);
    value->node = (uint16_t)tombolo_get(r, in, at + 8);
}

#ifdef __cplusplus
}
#endif

#endif
