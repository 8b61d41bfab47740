/* Buffers go through three domains, and none of them is copied: `tombolo run --on host,arm0,host @name@.tbi` */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tombolo.h>

#define BUFFER_BYTES 65536
#define BUFFERS 4
#define ROUNDS 200
#define PATIENCE (30 * TOMBOLO_SECOND)

/* Ends the program unless something went well. */
static void must(tombolo_status status, const char *what)
{
    if (status != TOMBOLO_OK) {
        fprintf(stderr, "@name@: %s: %s: %s\n", what, tombolo_error_name(status), tombolo_last_error());
        exit(1);
    }
}

static void fail(const char *what)
{
    fprintf(stderr, "@name@: %s\n", what);
    exit(1);
}

/* What the other side does next, which has to be of that kind. */
static tombolo_arrival expect(tombolo_bulk *bulk, uint32_t kind)
{
    tombolo_arrival arrival;
    must(tombolo_bulk_receive(bulk, PATIENCE, &arrival), "receive");
    if (arrival.kind != kind) {
        fail("something else came");
    }
    return arrival;
}

/* A buffer that comes back, to be used again. */
static tombolo_buffer *take_back(tombolo_bulk *bulk, tombolo_pool *pool)
{
    tombolo_buffer *buffer;
    expect(bulk, TOMBOLO_PASSED);
    must(tombolo_pool_take(pool, &buffer), "take a buffer");
    return buffer;
}

/* Passes a buffer back with a word, for which the other side waits. */
static void pass_back(tombolo_bulk *bulk, tombolo_buffer *buffer)
{
    must(tombolo_bulk_pass(bulk, buffer, "free", 4, PATIENCE), "pass a buffer back");
}

/* A pool in memory that both nodes reach: where one of them is a virtual machine, in the window to it. */
static tombolo_pool *make_pool(tombolo_domain *domain, tombolo_bulk *bulk)
{
    const char *windows[] = {tombolo_bulk_peer_node(bulk), tombolo_node_name(domain)};
    tombolo_pool *pool;
    for (size_t index = 0; index < 2; index++) {
        const tombolo_pool_options options = {BUFFER_BYTES, BUFFERS, TOMBOLO_TRUST_FULL, windows[index]};
        if (tombolo_create_pool(domain, &options, &pool) == TOMBOLO_OK) {
            return pool;
        }
    }
    const tombolo_pool_options options = {BUFFER_BYTES, BUFFERS, TOMBOLO_TRUST_FULL, NULL};
    must(tombolo_create_pool(domain, &options, &pool), "make a pool");
    return pool;
}

/* Rank 0 has the buffers: it fills what is free and moves it on. */
static void source(tombolo_domain *domain, const char *stage)
{
    tombolo_bulk *next;
    must(tombolo_connect_bulk(domain, stage, NULL, PATIENCE, &next), "connect");
    tombolo_pool *pool = make_pool(domain, next);
    must(tombolo_bulk_assign(next, pool, false, PATIENCE), "assign the pool");
    for (unsigned round = 0; round < ROUNDS; round++) {
        const uint8_t number = (uint8_t)round;
        tombolo_buffer *buffer;
        if (round < BUFFERS) {
            must(tombolo_pool_take(pool, &buffer), "take a buffer");
        } else {
            buffer = take_back(next, pool);
        }
        memset(tombolo_buffer_memory(buffer), number, BUFFER_BYTES);
        must(tombolo_bulk_move(next, &buffer, 1, &number, 1, PATIENCE), "move a buffer");
    }
    /* When all buffers are back, all have been seen. */
    for (int count = 0; count < BUFFERS; count++) {
        expect(next, TOMBOLO_PASSED);
    }
    printf("%d buffers of %d bytes went round %d times\n", BUFFERS, BUFFER_BYTES, ROUNDS);
    must(tombolo_bulk_close(next), "close");
    tombolo_pool_drop(pool);
}

/* Waits for the one before this one in the pipeline to connect. */
static tombolo_bulk *accept_previous(tombolo_domain *domain, const char *name, tombolo_pool **pool)
{
    tombolo_listener *listener;
    tombolo_bulk *previous;
    must(tombolo_export_bulk(domain, name, NULL, &listener), "export the name");
    must(tombolo_accept_bulk(listener, PATIENCE, &previous), "accept");
    tombolo_unexport(listener);
    *pool = expect(previous, TOMBOLO_POOL_TAKEN).pool;
    return previous;
}

/* Rank 1 changes each buffer where it lies, moves it on, and passes back what the sink is done with. */
static void stage(tombolo_domain *domain, const char *name, const char *sink)
{
    tombolo_pool *pool;
    tombolo_bulk *next, *previous = accept_previous(domain, name, &pool);
    int ahead = 0;
    must(tombolo_connect_bulk(domain, sink, NULL, PATIENCE, &next), "connect");
    must(tombolo_bulk_assign(next, pool, false, PATIENCE), "assign the pool");
    for (int round = 1; round <= ROUNDS; round++) {
        tombolo_arrival arrival = expect(previous, TOMBOLO_MOVED);
        const uint8_t number = *(const uint8_t *)arrival.metadata;
        uint8_t *bytes = tombolo_buffer_memory(arrival.buffer);
        for (size_t index = 0; index < BUFFER_BYTES; index++) {
            bytes[index] = (uint8_t)(bytes[index] * 2);
        }
        must(tombolo_bulk_move(next, &arrival.buffer, 1, &number, 1, PATIENCE), "move a buffer");
        /* Half of the buffers may be ahead, so that the source has some to fill; in the end all come back. */
        for (ahead++; ahead > (round == ROUNDS ? 0 : BUFFERS / 2); ahead--) {
            pass_back(previous, take_back(next, pool));
        }
    }
    printf("%s doubled %d buffers\n", tombolo_node_name(domain), ROUNDS);
    must(tombolo_bulk_close(next), "close");
    must(tombolo_bulk_close(previous), "close");
    tombolo_pool_drop(pool);
}

/* Rank 2 looks at every buffer and passes it back. */
static void sink(tombolo_domain *domain, const char *name)
{
    tombolo_pool *pool;
    tombolo_bulk *previous = accept_previous(domain, name, &pool);
    for (unsigned round = 0; round < ROUNDS; round++) {
        tombolo_arrival arrival = expect(previous, TOMBOLO_MOVED);
        const uint8_t *bytes = tombolo_buffer_data(arrival.buffer);
        const uint8_t number = *(const uint8_t *)arrival.metadata;
        for (size_t index = 0; index < BUFFER_BYTES; index++) {
            if (number != (uint8_t)round || bytes[index] != (uint8_t)(round * 2)) {
                fail("a buffer is not as it should be");
            }
        }
        pass_back(previous, arrival.buffer);
    }
    printf("%d buffers came by %s as they should be\n", ROUNDS, tombolo_bulk_peer_node(previous));
    must(tombolo_bulk_close(previous), "close");
    tombolo_pool_drop(pool);
}

int main(void)
{
    tombolo_domain *domain;
    tombolo_job job;
    char stage_name[128], sink_name[128];
    must(tombolo_attach(&domain), "attach");
    must(tombolo_get_job(domain, &job), "find the job");
    if (job.size != 3) {
        fail("start three of me: tombolo run --on host,arm0,host @name@.tbi");
    }
    must(tombolo_job_name(domain, "stage", stage_name, sizeof stage_name), "name a stage");
    must(tombolo_job_name(domain, "sink", sink_name, sizeof sink_name), "name a stage");
    switch (job.rank) {
    case 0: source(domain, stage_name); break;
    case 1: stage(domain, stage_name, sink_name); break;
    default: sink(domain, sink_name);
    }
    tombolo_detach(domain);
    return 0;
}
