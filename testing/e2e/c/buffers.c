/* Bulk memory that goes along with messages: moved, lent, several, none; and buffers that are not there. */
#include "typed.h"

#define BUFFER_BYTES 65536
#define BUFFERS 6
/* Calls that are refused, of each client. */
#define REFUSED 3

static uint8_t pattern(uint8_t seed, size_t at)
{
    return (uint8_t)((uint8_t)at * 31u ^ (uint8_t)(at >> 8) ^ seed);
}

/* The bytes of a buffer, added up, for as long as it says. */
static tombolo_status add_buffer_bytes(const tombolo_buffer *buffer, uint64_t *sum)
{
    static uint8_t bytes[BUFFER_BYTES];
    const size_t length = (size_t)tombolo_buffer_length(buffer);
    const tombolo_status status =
        length > BUFFER_BYTES ? TOMBOLO_OUT_OF_RANGE : tombolo_buffer_read(buffer, 0, bytes, length);
    for (size_t at = 0; status == TOMBOLO_OK && at < length; at++) {
        *sum += bytes[at];
    }
    return status;
}

static tombolo_status on_pass(void *context, tombolo_pending pending, const testing_buffers_pass_request *request,
                              testing_buffers_pass_reply *reply)
{
    const tombolo_transfers *transfers = (const tombolo_transfers *)context;
    tombolo_buffer *first = NULL, *buffer;
    tombolo_status status = TOMBOLO_OK;
    (void)pending;
    for (uint32_t index = 0; status == TOMBOLO_OK && index < request->given.count; index++) {
        status = tombolo_claim(transfers, request->given.items[index], 0, &buffer);
        if (status == TOMBOLO_OK) {
            status = add_buffer_bytes(buffer, &reply->sum);
            if (index == 0) {
                first = buffer;
            } else {
                tombolo_buffer_drop(buffer);
            }
        }
    }
    if (status == TOMBOLO_OK && request->lent.there) {
        status = tombolo_claim(transfers, request->lent.value, 0, &buffer);
        if (status == TOMBOLO_OK) {
            status = add_buffer_bytes(buffer, &reply->sum);
            tombolo_buffer_drop(buffer);
        }
    }
    if (status == TOMBOLO_OK && first != NULL) {
        status = tombolo_move_buffers(transfers, &first, 1, PATIENCE, &reply->back.value);
        reply->back.there = status == TOMBOLO_OK;
        first = status == TOMBOLO_OK ? NULL : first;
    }
    tombolo_buffer_drop(first);
    return status;
}

void serve_buffers(tombolo_domain *domain, tombolo_channel *channel)
{
    const testing_buffers_handler handler = {on_pass};
    const size_t bytes = testing_buffers_server_memory(channel);
    tombolo_transfers *transfers;
    testing_buffers_server server;
    tombolo_status status = tombolo_open_bulk(domain, channel, NULL, NULL, 0, PATIENCE, &transfers);
    must(status == TOMBOLO_OK, "open a bulk channel", status);
    status = testing_buffers_server_bind(&server, channel, allocate(bytes), bytes, &handler, transfers);
    must(status == TOMBOLO_OK, "bind", status);
    while ((status = testing_buffers_serve(&server, PATIENCE)) == TOMBOLO_OK) {
    }
    must(status == TOMBOLO_CLOSED, "serve", status);
    must(server.base.port.counts.refused == REFUSED, "not as many calls were refused as should be", status);
    tombolo_transfers_drop(transfers);
    tombolo_close(channel);
}

static tombolo_buffer *create_filled_buffer(const tombolo_pool *pool, uint8_t seed, size_t length, uint64_t *sum)
{
    static uint8_t bytes[BUFFER_BYTES];
    tombolo_buffer *buffer;
    tombolo_status status = tombolo_pool_take(pool, &buffer);
    must(status == TOMBOLO_OK, "take a buffer", status);
    for (size_t at = 0; at < length; at++) {
        bytes[at] = pattern(seed, at);
        *sum += bytes[at];
    }
    status = tombolo_buffer_write(buffer, 0, bytes, length);
    must(status == TOMBOLO_OK, "write to a buffer", status);
    status = tombolo_buffer_set_part(buffer, 0, length);
    must(status == TOMBOLO_OK, "mean a part", status);
    return buffer;
}

void call_buffers(tombolo_domain *domain, tombolo_channel *channel, const char *window)
{
    static const size_t lengths[] = {8, 4096, BUFFER_BYTES - 8, BUFFER_BYTES};
    static const uint32_t rounds[] = {0, 1, 4, 2, 4, 4};
    const tombolo_pool_options options = {BUFFER_BYTES, BUFFERS, TOMBOLO_TRUST_FULL, window};
    const size_t bytes = testing_buffers_client_memory(channel);
    testing_buffers_client client;
    testing_buffers_pass_request request;
    testing_buffers_pass_reply reply;
    tombolo_transfers *transfers;
    tombolo_pool *pool;
    tombolo_right given[4], refused[REFUSED];
    tombolo_buffer *lent;
    uint64_t ignored = 0;
    tombolo_status status = tombolo_create_pool(domain, &options, &pool);
    must(status == TOMBOLO_OK, "create a pool", status);
    status = tombolo_open_bulk(domain, channel, NULL, (const tombolo_pool *const *)&pool, 1, PATIENCE, &transfers);
    must(status == TOMBOLO_OK, "open a bulk channel", status);
    status = testing_buffers_client_bind(&client, channel, allocate(bytes), bytes);
    must(status == TOMBOLO_OK, "bind", status);
    memset(&request, 0, sizeof request);
    memset(refused, 0, sizeof refused);
    request.given.items = given;
    for (size_t round = 0; round < sizeof rounds / sizeof *rounds; round++) {
        tombolo_buffer *buffers[4];
        uint64_t sum = 0;
        for (uint32_t index = 0; index < rounds[round]; index++) {
            buffers[index] = create_filled_buffer(pool, (uint8_t)index, lengths[index], &sum);
        }
        if (rounds[round] > 0) {
            status = tombolo_move_buffers(transfers, buffers, rounds[round], PATIENCE, given);
            must(status == TOMBOLO_OK, "move buffers", status);
            refused[0] = given[0];
        }
        lent = create_filled_buffer(pool, 9, 128, &sum);
        status = tombolo_lend_buffer(transfers, lent, PATIENCE, &request.lent.value);
        must(status == TOMBOLO_OK, "lend a buffer", status);
        request.lent.there = true;
        request.given.count = rounds[round];
        status = testing_buffers_call_pass(&client, &request, &reply, PATIENCE);
        must(status == TOMBOLO_OK && reply.sum == sum && reply.back.there == (rounds[round] > 0), "the sum", status);
        if (reply.back.there) {
            tombolo_buffer *back;
            status = tombolo_claim(transfers, reply.back.value, PATIENCE, &back);
            must(status == TOMBOLO_OK && tombolo_buffer_length(back) == lengths[0], "what came back", status);
            tombolo_buffer_drop(back);
        }
        tombolo_buffer_drop(lent);
    }
    /* Claimed before; never sent; and lent where it says moved. */
    refused[1] = refused[0];
    refused[1].object ^= 0x40000000;
    lent = create_filled_buffer(pool, 1, 64, &ignored);
    status = tombolo_lend_buffer(transfers, lent, PATIENCE, &refused[2]);
    must(status == TOMBOLO_OK, "lend a buffer", status);
    refused[2].mark = refused[0].mark;
    request.lent.there = false;
    request.given.count = 1;
    for (size_t index = 0; index < REFUSED; index++) {
        given[0] = refused[index];
        status = testing_buffers_call_pass(&client, &request, &reply, PATIENCE);
        must(status == TOMBOLO_RIGHT_REFUSED, "a buffer is refused", status);
    }
    tombolo_buffer_drop(lent);
    tombolo_pool_drop(pool);
    tombolo_transfers_drop(transfers);
    tombolo_close(channel);
}
