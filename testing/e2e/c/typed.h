/* Typed interfaces in C, as testing/e2e/src/bin/actor/typed does in Rust: each serves and calls each. */
#ifndef TYPED_H
#define TYPED_H

#include <stdio.h>
#include <stdlib.h>

#include "everything.h"
#include "growth.h"
#include "growth_before.h"
#include "rights.h"

#define PATIENCE (100 * TOMBOLO_SECOND)

/* Ends the program, for its peer did not do what it should. */
static inline void must(bool holds, const char *what, tombolo_status status)
{
    if (!holds) {
        fprintf(stderr, "typed: %s: %s: %s\n", what, tombolo_error_name(status), tombolo_last_error());
        exit(1);
    }
}

/* Memory of a client or server for the rest of the program's life, which is short. */
static inline void *lasting(size_t bytes)
{
    void *memory = malloc(bytes);
    must(memory != NULL, "no memory", TOMBOLO_OK);
    return memory;
}

void serve_everything(tombolo_channel *channel);
void call_everything(tombolo_channel *channel);

void serve_now(tombolo_channel *channel);
void serve_before(tombolo_channel *channel);
/* `now` tells which version the server has. */
void call_as_now(tombolo_channel *channel, bool now);
void call_as_before(tombolo_channel *channel, bool now);

void serve_rights(tombolo_domain *domain, tombolo_channel *channel);
/* Memory is in the window of that node, or of the kernel if it is null. */
void call_rights(tombolo_domain *domain, tombolo_channel *channel, const char *window);

void serve_buffers(tombolo_domain *domain, tombolo_channel *channel);
void call_buffers(tombolo_domain *domain, tombolo_channel *channel, const char *window);

#endif
