/* Typed interfaces in C, the counterpart of testing/e2e/src/bin/actor/typed in Rust: each serves and calls each. */
#ifndef TYPED_H
#define TYPED_H

#include <stdio.h>
#include <stdlib.h>

#include "everything.h"
#include "growth.h"
#include "growth_before.h"
#include "rights.h"

#define PATIENCE (100 * TOMBOLO_SECOND)

/* Exits the program if a condition does not hold. */
static inline void must(bool holds, const char *what, tombolo_status status)
{
    if (!holds) {
        fprintf(stderr, "typed: %s: %s: %s\n", what, tombolo_error_name(status), tombolo_last_error());
        exit(1);
    }
}

/* Allocates the memory of a client or server. */
static inline void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    must(memory != NULL, "no memory", TOMBOLO_OK);
    return memory;
}

void serve_everything(tombolo_channel *channel);
void call_everything(tombolo_channel *channel);

void serve_now(tombolo_channel *channel);
void serve_before(tombolo_channel *channel);
/* `now` is whether the server has the current version. */
void call_as_now(tombolo_channel *channel, bool now);
void call_as_before(tombolo_channel *channel, bool now);

void serve_rights(tombolo_domain *domain, tombolo_channel *channel);
/* Memory is in the window of node `window`, or in memory of this kernel if it is null. */
void call_rights(tombolo_domain *domain, tombolo_channel *channel, const char *window);

void serve_buffers(tombolo_domain *domain, tombolo_channel *channel);
void call_buffers(tombolo_domain *domain, tombolo_channel *channel, const char *window);

#endif
