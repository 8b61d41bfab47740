/*
 * Capabilities and buffers passed in messages, for tests.
 *
 * Written by `tombolo idl compile --lang c` from interfaces/rights.tbl.
 */
#ifndef TESTING_RIGHTS_H
#define TESTING_RIGHTS_H

#include <tombolo/interface.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The parameters of a message. */
typedef struct testing_rights_pass_request {
    /* The endpoint to which the server sends the sum, as a message of 8 bytes, little-endian. */
    tombolo_right endpoint; /* copies: endpoint */
    /* Memory that the server owns from then on. */
    tombolo_right region; /* moves: region */
    /* An optional capability. */
    tombolo_optional_right any; /* copies: capability */
    /* Several capabilities. */
    tombolo_list_right parts; /* up to 4, each of copies: capability */
} testing_rights_pass_request;
/* Length of its fields on the wire, in bytes. */
#define TESTING_RIGHTS_PASS_REQUEST_BYTES 64

static inline void testing_rights_pass_request_put(tombolo_writer *w, uint32_t at, const testing_rights_pass_request *value)
{
    tombolo_put_right(w, at, value->endpoint, 0x1);
    tombolo_put_right(w, at + 16, value->region, 0x102);
    if (value->any.there) {
        tombolo_put(w, at + 32, 1, 1);
        tombolo_put_right(w, at + 32 + 8, value->any.value, 0x3);
    }
    {
        const uint32_t list0 = tombolo_put_list(w, at + 56, value->parts.items, value->parts.count, 16, 4, "RightsPassRequest.parts");
        for (uint32_t i0 = 0; i0 < value->parts.count && tombolo_is_writing(w); i0++) {
            tombolo_put_right(w, list0 + i0 * 16, value->parts.items[i0], 0x3);
        }
    }
}

static inline void testing_rights_pass_request_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_rights_pass_request *value)
{
    value->endpoint = tombolo_get_right(r, in, at, 0x1);
    value->region = tombolo_get_right(r, in, at + 16, 0x102);
    value->any.there = tombolo_get_bool(r, in, at + 32);
    if (value->any.there) {
        value->any.value = tombolo_get_right(r, in, at + 32 + 8, 0x3);
    }
    {
        tombolo_record list0;
        tombolo_right *items0 = (tombolo_right *)tombolo_get_list(r, in, at + 56, 16, 4, sizeof(tombolo_right), &list0, &value->parts.count);
        for (uint32_t i0 = 0; i0 < value->parts.count && tombolo_is_reading(r); i0++) {
            items0[i0] = tombolo_get_right(r, list0, list0.start + i0 * 16, 0x3);
        }
        value->parts.items = items0;
    }
}

/* The results of a call. */
typedef struct testing_rights_pass_reply {
    /* The sum of all bytes. */
    uint64_t sum;
    /* A capability to read the moved region. */
    tombolo_optional_right back; /* copies: capability */
} testing_rights_pass_reply;
/* Length of its fields on the wire, in bytes. */
#define TESTING_RIGHTS_PASS_REPLY_BYTES 32

static inline void testing_rights_pass_reply_put(tombolo_writer *w, uint32_t at, const testing_rights_pass_reply *value)
{
    tombolo_put(w, at, value->sum, 8);
    if (value->back.there) {
        tombolo_put(w, at + 8, 1, 1);
        tombolo_put_right(w, at + 8 + 8, value->back.value, 0x3);
    }
}

static inline void testing_rights_pass_reply_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_rights_pass_reply *value)
{
    value->sum = (uint64_t)tombolo_get(r, in, at);
    value->back.there = tombolo_get_bool(r, in, at + 8);
    if (value->back.there) {
        value->back.value = tombolo_get_right(r, in, at + 8 + 8, 0x3);
    }
}

/* The parameters of a message. */
typedef struct testing_buffers_pass_request {
    /* Buffers that the server owns from then on. */
    tombolo_list_right given; /* up to 4, each of moves: buffer */
    /* A buffer that the caller keeps and the server reads. */
    tombolo_optional_right lent; /* copies: buffer */
} testing_buffers_pass_request;
/* Length of its fields on the wire, in bytes. */
#define TESTING_BUFFERS_PASS_REQUEST_BYTES 32

static inline void testing_buffers_pass_request_put(tombolo_writer *w, uint32_t at, const testing_buffers_pass_request *value)
{
    {
        const uint32_t list0 = tombolo_put_list(w, at, value->given.items, value->given.count, 16, 4, "BuffersPassRequest.given");
        for (uint32_t i0 = 0; i0 < value->given.count && tombolo_is_writing(w); i0++) {
            tombolo_put_right(w, list0 + i0 * 16, value->given.items[i0], 0x104);
        }
    }
    if (value->lent.there) {
        tombolo_put(w, at + 8, 1, 1);
        tombolo_put_right(w, at + 8 + 8, value->lent.value, 0x4);
    }
}

static inline void testing_buffers_pass_request_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_buffers_pass_request *value)
{
    {
        tombolo_record list0;
        tombolo_right *items0 = (tombolo_right *)tombolo_get_list(r, in, at, 16, 4, sizeof(tombolo_right), &list0, &value->given.count);
        for (uint32_t i0 = 0; i0 < value->given.count && tombolo_is_reading(r); i0++) {
            items0[i0] = tombolo_get_right(r, list0, list0.start + i0 * 16, 0x104);
        }
        value->given.items = items0;
    }
    value->lent.there = tombolo_get_bool(r, in, at + 8);
    if (value->lent.there) {
        value->lent.value = tombolo_get_right(r, in, at + 8 + 8, 0x4);
    }
}

/* The results of a call. */
typedef struct testing_buffers_pass_reply {
    /* The sum of all bytes. */
    uint64_t sum;
    /* The first of the given buffers. */
    tombolo_optional_right back; /* moves: buffer */
} testing_buffers_pass_reply;
/* Length of its fields on the wire, in bytes. */
#define TESTING_BUFFERS_PASS_REPLY_BYTES 32

static inline void testing_buffers_pass_reply_put(tombolo_writer *w, uint32_t at, const testing_buffers_pass_reply *value)
{
    tombolo_put(w, at, value->sum, 8);
    if (value->back.there) {
        tombolo_put(w, at + 8, 1, 1);
        tombolo_put_right(w, at + 8 + 8, value->back.value, 0x104);
    }
}

static inline void testing_buffers_pass_reply_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_buffers_pass_reply *value)
{
    value->sum = (uint64_t)tombolo_get(r, in, at);
    value->back.there = tombolo_get_bool(r, in, at + 8);
    if (value->back.there) {
        value->back.value = tombolo_get_right(r, in, at + 8 + 8, 0x104);
    }
}

/* --- interface Rights ---------------------------------------------------------------------------- */

/* Passes capabilities to memory and to endpoints. */
#define TESTING_RIGHTS_VERSION 1
/* Hash of its package, name and version, which must be the same on both sides. */
#define TESTING_RIGHTS_HASH UINT64_C(0x7e6393de63d8dffb)
/* Hash of all declarations that affect peers; distinguishes builds. */
#define TESTING_RIGHTS_FINGERPRINT UINT64_C(0x90770588f71af1f6)
/* Maximum memory for the lists of a message, in bytes. */
#define TESTING_RIGHTS_LIST_BYTES (4 * sizeof(tombolo_right) + 8)

/* Returns the options of its channels, for tombolo_connect and tombolo_export. */
static inline tombolo_options testing_rights_options(void)
{
    tombolo_options options = {0, 0, 0, 0, 0, 0};
    options.interface_hash = TESTING_RIGHTS_HASH;
    return options;
}

/* --- client of Rights ---------------------------------------------------------------------------- */

/* The calling end of a channel. */
typedef struct testing_rights_client {
    tombolo_client base; /* base.port.counts has the counters */
} testing_rights_client;

/* Handles a one-way message. Returns false if its ordinal is unknown. */
static inline bool testing_rights_client_event(
    tombolo_client *base, uint16_t ordinal, tombolo_reader *r, tombolo_record body)
{
    (void)base;
    (void)ordinal;
    (void)r;
    (void)body;
    return false;
}

/* Returns the memory that a client of this channel needs, in bytes. */
static inline size_t testing_rights_client_memory(const tombolo_channel *channel)
{
    return tombolo_port_memory(channel, TESTING_RIGHTS_LIST_BYTES);
}

/* Creates a client on an open channel, in memory of the caller. Both must outlive it. Less memory than
 * testing_rights_client_memory() returns suffices as long as the lists of every message fit. */
static inline tombolo_status testing_rights_client_bind(
    testing_rights_client *client, tombolo_channel *channel, void *memory, size_t bytes)
{
    const tombolo_needs needs = {true, false, 72};
    memset(client, 0, sizeof *client);
    client->base.on_event = testing_rights_client_event;
    return tombolo_port_bind(&client->base.port, channel, memory, bytes, needs);
}

/* Waits for a one-way message and handles all that have arrived. Returns TOMBOLO_TIMED_OUT if there was none. */
static inline tombolo_status testing_rights_client_poll(testing_rights_client *client, uint64_t timeout_ns)
{
    return tombolo_client_poll(&client->base, timeout_ns);
}

/* Passes capabilities of all kinds. The server adds up the bytes of all memory that it gets access to. */
static inline tombolo_status testing_rights_call_pass(
    testing_rights_client *client, const testing_rights_pass_request *request, testing_rights_pass_reply *reply, uint64_t timeout_ns)
{
    tombolo_reader r;
    tombolo_record body;
    tombolo_status status;
    tombolo_writer w = tombolo_client_begin(&client->base, 1, TOMBOLO_CALL, TESTING_RIGHTS_PASS_REQUEST_BYTES);
    testing_rights_pass_request_put(&w, TOMBOLO_HEADER_BYTES, request);
    status = tombolo_client_call(&client->base, &w, 1, false, timeout_ns, &r, &body);
    if (status == TOMBOLO_OK) {
        memset(reply, 0, sizeof *reply);
        testing_rights_pass_reply_get(&r, body, body.start, reply);
    }
    return tombolo_client_read(&client->base, &r, status);
}

/* --- server of Rights ---------------------------------------------------------------------------- */

/* Handlers. That of a call fills in the reply and returns TOMBOLO_OK, or fills in the error and returns TOMBOLO_DECLINED,
 * or keeps `pending` for an answer later and returns TOMBOLO_LATER. With any other status, or a null handler, it is not
 * served. The request and its texts are valid until the handler returns; what the reply refers to, until it is sent. */
typedef struct testing_rights_handler {
    /* Passes capabilities of all kinds. The server adds up the bytes of all memory that it gets access to. */
    tombolo_status (*pass)(void *context, tombolo_pending pending, const testing_rights_pass_request *request, testing_rights_pass_reply *reply);
} testing_rights_handler;

/* The serving end of a channel. */
typedef struct testing_rights_server {
    tombolo_server base; /* base.port.counts has the counters */
    const testing_rights_handler *handler;
    void *context;
} testing_rights_server;

/* Returns the memory that a server of this channel needs, in bytes. */
static inline size_t testing_rights_server_memory(const tombolo_channel *channel)
{
    return tombolo_port_memory(channel, TESTING_RIGHTS_LIST_BYTES);
}

/* Creates a server on an open channel, in memory of the caller. Both must outlive it. Less memory than
 * testing_rights_server_memory() returns suffices as long as the lists of every message fit. */
static inline tombolo_status testing_rights_server_bind(
    testing_rights_server *server, tombolo_channel *channel, void *memory, size_t bytes, const testing_rights_handler *handler, void *context)
{
    const tombolo_needs needs = {true, false, 72};
    memset(server, 0, sizeof *server);
    server->handler = handler;
    server->context = context;
    return tombolo_port_bind(&server->base.port, channel, memory, bytes, needs);
}

/* Answers a kept call of `pass`: with the reply for TOMBOLO_OK, otherwise as not served or refused.
 * Returns TOMBOLO_NOT_OUTSTANDING if the client no longer waits for it. */
static inline tombolo_status testing_rights_answer_pass(
    testing_rights_server *server, tombolo_pending pending, tombolo_status result, const testing_rights_pass_reply *reply)
{
    if (pending.ordinal != 1 || !tombolo_server_forget(&server->base, pending)) {
        return tombolo_explain(TOMBOLO_NOT_OUTSTANDING, "the client no longer waits for the answer");
    }
    if (result == TOMBOLO_OK) {
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_REPLY, TESTING_RIGHTS_PASS_REPLY_BYTES);
        testing_rights_pass_reply_put(&w, TOMBOLO_HEADER_BYTES, reply);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    return tombolo_server_fault(&server->base, pending, tombolo_server_why(result));
}

/* Waits for one message and serves it. Returns TOMBOLO_TIMED_OUT if there was none, TOMBOLO_CLOSED or TOMBOLO_PEER_DIED
 * if the client is gone, and TOMBOLO_NO_ROOM if it does not take its answers: close the channel then. */
static inline tombolo_status testing_rights_serve(testing_rights_server *server, uint64_t timeout_ns)
{
    tombolo_pending pending = {0, 0};
    tombolo_reader r;
    tombolo_record body;
    uint8_t kind;
    tombolo_status status = tombolo_server_receive(&server->base, timeout_ns, &kind, &pending, &r, &body);
    if (status != TOMBOLO_OK || kind == 0) {
        return status;
    }
    status = TOMBOLO_UNSERVED; /* unless a handler serves it */
    if (kind == TOMBOLO_MESSAGE) {
        switch (pending.ordinal) {
        default:
            return tombolo_server_took(&server->base, &r, false);
        }
    }
    switch (pending.ordinal) {
    case 1: {
        testing_rights_pass_request request;
        testing_rights_pass_reply reply;
        memset(&request, 0, sizeof request);
        memset(&reply, 0, sizeof reply);
        testing_rights_pass_request_get(&r, body, body.start, &request);
        if (!tombolo_is_reading(&r)) {
            return tombolo_server_fault(&server->base, pending, 2);
        }
        (void)tombolo_server_keep(&server->base, pending);
        if (server->handler->pass != NULL) {
            status = server->handler->pass(server->context, pending, &request, &reply);
        }
        if (status == TOMBOLO_LATER) {
            return TOMBOLO_OK;
        }
        return testing_rights_answer_pass(server, pending, status, &reply);
    }
    default:
        return tombolo_server_fault(&server->base, pending, 1);
    }
}

/* --- interface Buffers --------------------------------------------------------------------------- */

/* Passes buffers of bulk channels. */
#define TESTING_BUFFERS_VERSION 1
/* Hash of its package, name and version, which must be the same on both sides. */
#define TESTING_BUFFERS_HASH UINT64_C(0x59fe21477ee3a955)
/* Hash of all declarations that affect peers; distinguishes builds. */
#define TESTING_BUFFERS_FINGERPRINT UINT64_C(0x23572504c922e154)
/* Maximum memory for the lists of a message, in bytes. */
#define TESTING_BUFFERS_LIST_BYTES (4 * sizeof(tombolo_right) + 8)

/* Returns the options of its channels, for tombolo_connect and tombolo_export. */
static inline tombolo_options testing_buffers_options(void)
{
    tombolo_options options = {0, 0, 0, 0, 0, 0};
    options.interface_hash = TESTING_BUFFERS_HASH;
    return options;
}

/* --- client of Buffers --------------------------------------------------------------------------- */

/* The calling end of a channel. */
typedef struct testing_buffers_client {
    tombolo_client base; /* base.port.counts has the counters */
} testing_buffers_client;

/* Handles a one-way message. Returns false if its ordinal is unknown. */
static inline bool testing_buffers_client_event(
    tombolo_client *base, uint16_t ordinal, tombolo_reader *r, tombolo_record body)
{
    (void)base;
    (void)ordinal;
    (void)r;
    (void)body;
    return false;
}

/* Returns the memory that a client of this channel needs, in bytes. */
static inline size_t testing_buffers_client_memory(const tombolo_channel *channel)
{
    return tombolo_port_memory(channel, TESTING_BUFFERS_LIST_BYTES);
}

/* Creates a client on an open channel, in memory of the caller. Both must outlive it. Less memory than
 * testing_buffers_client_memory() returns suffices as long as the lists of every message fit. */
static inline tombolo_status testing_buffers_client_bind(
    testing_buffers_client *client, tombolo_channel *channel, void *memory, size_t bytes)
{
    const tombolo_needs needs = {false, true, 40};
    memset(client, 0, sizeof *client);
    client->base.on_event = testing_buffers_client_event;
    return tombolo_port_bind(&client->base.port, channel, memory, bytes, needs);
}

/* Waits for a one-way message and handles all that have arrived. Returns TOMBOLO_TIMED_OUT if there was none. */
static inline tombolo_status testing_buffers_client_poll(testing_buffers_client *client, uint64_t timeout_ns)
{
    return tombolo_client_poll(&client->base, timeout_ns);
}

/* Passes buffers. The server adds up the bytes of the selected part of each. */
static inline tombolo_status testing_buffers_call_pass(
    testing_buffers_client *client, const testing_buffers_pass_request *request, testing_buffers_pass_reply *reply, uint64_t timeout_ns)
{
    tombolo_reader r;
    tombolo_record body;
    tombolo_status status;
    tombolo_writer w = tombolo_client_begin(&client->base, 1, TOMBOLO_CALL, TESTING_BUFFERS_PASS_REQUEST_BYTES);
    testing_buffers_pass_request_put(&w, TOMBOLO_HEADER_BYTES, request);
    status = tombolo_client_call(&client->base, &w, 1, false, timeout_ns, &r, &body);
    if (status == TOMBOLO_OK) {
        memset(reply, 0, sizeof *reply);
        testing_buffers_pass_reply_get(&r, body, body.start, reply);
    }
    return tombolo_client_read(&client->base, &r, status);
}

/* --- server of Buffers --------------------------------------------------------------------------- */

/* Handlers. That of a call fills in the reply and returns TOMBOLO_OK, or fills in the error and returns TOMBOLO_DECLINED,
 * or keeps `pending` for an answer later and returns TOMBOLO_LATER. With any other status, or a null handler, it is not
 * served. The request and its texts are valid until the handler returns; what the reply refers to, until it is sent. */
typedef struct testing_buffers_handler {
    /* Passes buffers. The server adds up the bytes of the selected part of each. */
    tombolo_status (*pass)(void *context, tombolo_pending pending, const testing_buffers_pass_request *request, testing_buffers_pass_reply *reply);
} testing_buffers_handler;

/* The serving end of a channel. */
typedef struct testing_buffers_server {
    tombolo_server base; /* base.port.counts has the counters */
    const testing_buffers_handler *handler;
    void *context;
} testing_buffers_server;

/* Returns the memory that a server of this channel needs, in bytes. */
static inline size_t testing_buffers_server_memory(const tombolo_channel *channel)
{
    return tombolo_port_memory(channel, TESTING_BUFFERS_LIST_BYTES);
}

/* Creates a server on an open channel, in memory of the caller. Both must outlive it. Less memory than
 * testing_buffers_server_memory() returns suffices as long as the lists of every message fit. */
static inline tombolo_status testing_buffers_server_bind(
    testing_buffers_server *server, tombolo_channel *channel, void *memory, size_t bytes, const testing_buffers_handler *handler, void *context)
{
    const tombolo_needs needs = {false, true, 40};
    memset(server, 0, sizeof *server);
    server->handler = handler;
    server->context = context;
    return tombolo_port_bind(&server->base.port, channel, memory, bytes, needs);
}

/* Answers a kept call of `pass`: with the reply for TOMBOLO_OK, otherwise as not served or refused.
 * Returns TOMBOLO_NOT_OUTSTANDING if the client no longer waits for it. */
static inline tombolo_status testing_buffers_answer_pass(
    testing_buffers_server *server, tombolo_pending pending, tombolo_status result, const testing_buffers_pass_reply *reply)
{
    if (pending.ordinal != 1 || !tombolo_server_forget(&server->base, pending)) {
        return tombolo_explain(TOMBOLO_NOT_OUTSTANDING, "the client no longer waits for the answer");
    }
    if (result == TOMBOLO_OK) {
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_REPLY, TESTING_BUFFERS_PASS_REPLY_BYTES);
        testing_buffers_pass_reply_put(&w, TOMBOLO_HEADER_BYTES, reply);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    return tombolo_server_fault(&server->base, pending, tombolo_server_why(result));
}

/* Waits for one message and serves it. Returns TOMBOLO_TIMED_OUT if there was none, TOMBOLO_CLOSED or TOMBOLO_PEER_DIED
 * if the client is gone, and TOMBOLO_NO_ROOM if it does not take its answers: close the channel then. */
static inline tombolo_status testing_buffers_serve(testing_buffers_server *server, uint64_t timeout_ns)
{
    tombolo_pending pending = {0, 0};
    tombolo_reader r;
    tombolo_record body;
    uint8_t kind;
    tombolo_status status = tombolo_server_receive(&server->base, timeout_ns, &kind, &pending, &r, &body);
    if (status != TOMBOLO_OK || kind == 0) {
        return status;
    }
    status = TOMBOLO_UNSERVED; /* unless a handler serves it */
    if (kind == TOMBOLO_MESSAGE) {
        switch (pending.ordinal) {
        default:
            return tombolo_server_took(&server->base, &r, false);
        }
    }
    switch (pending.ordinal) {
    case 1: {
        testing_buffers_pass_request request;
        testing_buffers_pass_reply reply;
        memset(&request, 0, sizeof request);
        memset(&reply, 0, sizeof reply);
        testing_buffers_pass_request_get(&r, body, body.start, &request);
        if (!tombolo_is_reading(&r)) {
            return tombolo_server_fault(&server->base, pending, 2);
        }
        (void)tombolo_server_keep(&server->base, pending);
        if (server->handler->pass != NULL) {
            status = server->handler->pass(server->context, pending, &request, &reply);
        }
        if (status == TOMBOLO_LATER) {
            return TOMBOLO_OK;
        }
        return testing_buffers_answer_pass(server, pending, status, &reply);
    }
    default:
        return tombolo_server_fault(&server->base, pending, 1);
    }
}

#ifdef __cplusplus
}
#endif

#endif
