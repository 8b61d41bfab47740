/*
 * The earlier version of an interface: tests connect it with the later one.
 *
 * Written by `tombolo idl compile --lang c` from interfaces/growth_before.tbl.
 */
#ifndef BEFORE_GROWTH_H
#define BEFORE_GROWTH_H

#include <tombolo/interface.h>

#include "common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A structure that will get further fields. */
typedef struct before_note {
    tombolo_text text; /* up to 32 bytes */
} before_note;
/* Length of its fields on the wire, in bytes. */
#define BEFORE_NOTE_BYTES 8

static inline void before_note_put(tombolo_writer *w, uint32_t at, const before_note *value)
{
    tombolo_put_text(w, at, value->text, 32, "Note.text");
}

static inline void before_note_get(tombolo_reader *r, tombolo_record in, uint32_t at, before_note *value)
{
    value->text = tombolo_get_text(r, in, at, 32);
}

/* The parameters of a message. */
typedef struct before_growth_look_request {
    before_note note;
} before_growth_look_request;
/* Length of its fields on the wire, in bytes. */
#define BEFORE_GROWTH_LOOK_REQUEST_BYTES 8

static inline void before_growth_look_request_put(tombolo_writer *w, uint32_t at, const before_growth_look_request *value)
{
    before_note_put(w, tombolo_put_record(w, at, BEFORE_NOTE_BYTES), &value->note);
}

static inline void before_growth_look_request_get(tombolo_reader *r, tombolo_record in, uint32_t at, before_growth_look_request *value)
{
    {
        const tombolo_record record0 = tombolo_get_record(r, in, at);
        before_note_get(r, record0, record0.start, &value->note);
    }
}

#define BEFORE_THING_NUMBER UINT32_C(1)

/* A union that will get another case. */
typedef struct before_thing {
    uint32_t which; /* one of the numbers above; others come from newer peers */
    union {
        uint32_t number;
    } as;
} before_thing;

static inline void before_thing_put(tombolo_writer *w, uint32_t at, const before_thing *value)
{
    switch (value->which) {
    case BEFORE_THING_NUMBER:
        at = tombolo_put_case(w, at, BEFORE_THING_NUMBER, 8);
        tombolo_put(w, at, value->as.number, 4);
        break;
    default:
        tombolo_put_fail(w, TOMBOLO_OVER_LIMIT, "Thing");
        break;
    }
}

static inline void before_thing_get(tombolo_reader *r, tombolo_record in, uint32_t at, before_thing *value)
{
    tombolo_record inside;
    value->which = tombolo_get_case(r, in, at, &inside);
    switch (value->which) {
    case BEFORE_THING_NUMBER:
        if (tombolo_get_exactly(r, inside, 8)) {
            value->as.number = (uint32_t)tombolo_get(r, inside, inside.start);
        }
        break;
    default:
        break;
    }
}

/* The results of a call. */
typedef struct before_growth_look_reply {
    before_note note;
    before_thing thing;
    testing_stamp stamp;
} before_growth_look_reply;
/* Length of its fields on the wire, in bytes. */
#define BEFORE_GROWTH_LOOK_REPLY_BYTES 40

static inline void before_growth_look_reply_put(tombolo_writer *w, uint32_t at, const before_growth_look_reply *value)
{
    before_note_put(w, tombolo_put_record(w, at, BEFORE_NOTE_BYTES), &value->note);
    before_thing_put(w, at + 8, &value->thing);
    testing_stamp_put(w, at + 24, &value->stamp);
}

static inline void before_growth_look_reply_get(tombolo_reader *r, tombolo_record in, uint32_t at, before_growth_look_reply *value)
{
    {
        const tombolo_record record0 = tombolo_get_record(r, in, at);
        before_note_get(r, record0, record0.start, &value->note);
    }
    before_thing_get(r, in, at + 8, &value->thing);
    testing_stamp_get(r, in, at + 24, &value->stamp);
}

/* The parameters of a message. */
typedef struct before_growth_forget {
    uint32_t id;
} before_growth_forget;
/* Length of its fields on the wire, in bytes. */
#define BEFORE_GROWTH_FORGET_BYTES 8

static inline void before_growth_forget_put(tombolo_writer *w, uint32_t at, const before_growth_forget *value)
{
    tombolo_put(w, at, value->id, 4);
}

static inline void before_growth_forget_get(tombolo_reader *r, tombolo_record in, uint32_t at, before_growth_forget *value)
{
    value->id = (uint32_t)tombolo_get(r, in, at);
}

/* The parameters of a message. */
typedef struct before_growth_seen {
    uint32_t id;
} before_growth_seen;
/* Length of its fields on the wire, in bytes. */
#define BEFORE_GROWTH_SEEN_BYTES 8

static inline void before_growth_seen_put(tombolo_writer *w, uint32_t at, const before_growth_seen *value)
{
    tombolo_put(w, at, value->id, 4);
}

static inline void before_growth_seen_get(tombolo_reader *r, tombolo_record in, uint32_t at, before_growth_seen *value)
{
    value->id = (uint32_t)tombolo_get(r, in, at);
}

/* --- interface Growth ---------------------------------------------------------------------------- */

/* The interface before its additions. */
#define BEFORE_GROWTH_VERSION 1
/* Hash of its package, name and version, which must be the same on both sides. */
#define BEFORE_GROWTH_HASH UINT64_C(0xc8fdb15f720b47d3)
/* Hash of all declarations that affect peers; distinguishes builds. */
#define BEFORE_GROWTH_FINGERPRINT UINT64_C(0x8d1b8bc1f63a2486)
/* Maximum memory for the lists of a message, in bytes. */
#define BEFORE_GROWTH_LIST_BYTES (0)

/* Returns the options of its channels, for tombolo_connect and tombolo_export. */
static inline tombolo_options before_growth_options(void)
{
    tombolo_options options = {0, 0, 0, 0, 0, 0};
    options.interface_hash = BEFORE_GROWTH_HASH;
    return options;
}

/* --- client of Growth ---------------------------------------------------------------------------- */

/* Handlers of the server's one-way messages; null to ignore a message. */
typedef struct before_growth_events {
    /* A note was seen. */
    void (*seen)(void *context, const before_growth_seen *event);
} before_growth_events;

/* The calling end of a channel. */
typedef struct before_growth_client {
    tombolo_client base; /* base.port.counts has the counters */
    const before_growth_events *events;
    void *context;
} before_growth_client;

/* Handles a one-way message. Returns false if its ordinal is unknown. */
static inline bool before_growth_client_event(
    tombolo_client *base, uint16_t ordinal, tombolo_reader *r, tombolo_record body)
{
    before_growth_client *client = (before_growth_client *)(void *)base;
    switch (ordinal) {
    case 3: {
        before_growth_seen event;
        memset(&event, 0, sizeof event);
        before_growth_seen_get(r, body, body.start, &event);
        if (tombolo_is_reading(r) && client->events != NULL && client->events->seen != NULL) {
            client->events->seen(client->context, &event);
        }
        return true;
    }
    default:
        return false;
    }
}

/* Returns the memory that a client of this channel needs, in bytes. */
static inline size_t before_growth_client_memory(const tombolo_channel *channel)
{
    return tombolo_port_memory(channel, BEFORE_GROWTH_LIST_BYTES);
}

/* Creates a client on an open channel, in memory of the caller. Both must outlive it. Less memory than
 * before_growth_client_memory() returns suffices as long as the lists of every message fit. */
static inline tombolo_status before_growth_client_bind(
    before_growth_client *client, tombolo_channel *channel, void *memory, size_t bytes, const before_growth_events *events, void *context)
{
    const tombolo_needs needs = {false, false, 48};
    memset(client, 0, sizeof *client);
    client->base.on_event = before_growth_client_event;
    client->events = events;
    client->context = context;
    return tombolo_port_bind(&client->base.port, channel, memory, bytes, needs);
}

/* Waits for a one-way message and handles all that have arrived. Returns TOMBOLO_TIMED_OUT if there was none. */
static inline tombolo_status before_growth_client_poll(before_growth_client *client, uint64_t timeout_ns)
{
    return tombolo_client_poll(&client->base, timeout_ns);
}

/* Returns the note, with details. */
/* Idempotent: it may be repeated if it is unknown whether it was served. */
static inline tombolo_status before_growth_call_look(
    before_growth_client *client, const before_growth_look_request *request, before_growth_look_reply *reply, uint64_t timeout_ns)
{
    tombolo_reader r;
    tombolo_record body;
    tombolo_status status;
    tombolo_writer w = tombolo_client_begin(&client->base, 1, TOMBOLO_CALL, BEFORE_GROWTH_LOOK_REQUEST_BYTES);
    before_growth_look_request_put(&w, TOMBOLO_HEADER_BYTES, request);
    status = tombolo_client_call(&client->base, &w, 1, false, timeout_ns, &r, &body);
    if (status == TOMBOLO_OK) {
        memset(reply, 0, sizeof *reply);
        before_growth_look_reply_get(&r, body, body.start, reply);
    }
    return tombolo_client_read(&client->base, &r, status);
}

/* Deletes a note. */
/* One-way. Returns TOMBOLO_NO_ROOM if it was not sent. */
static inline tombolo_status before_growth_send_forget(
    before_growth_client *client, const before_growth_forget *message, uint64_t timeout_ns)
{
    tombolo_writer w = tombolo_client_begin(&client->base, 2, TOMBOLO_MESSAGE, BEFORE_GROWTH_FORGET_BYTES);
    before_growth_forget_put(&w, TOMBOLO_HEADER_BYTES, message);
    return tombolo_port_send(&client->base.port, &w, timeout_ns);
}

/* --- server of Growth ---------------------------------------------------------------------------- */

/* Handlers. That of a call fills in the reply and returns TOMBOLO_OK, or fills in the error and returns TOMBOLO_DECLINED,
 * or keeps `pending` for an answer later and returns TOMBOLO_LATER. With any other status, or a null handler, it is not
 * served. The request and its texts are valid until the handler returns; what the reply refers to, until it is sent. */
typedef struct before_growth_handler {
    /* Returns the note, with details. */
    tombolo_status (*look)(void *context, tombolo_pending pending, const before_growth_look_request *request, before_growth_look_reply *reply);
    /* Deletes a note. */
    void (*forget)(void *context, const before_growth_forget *message);
} before_growth_handler;

/* The serving end of a channel. */
typedef struct before_growth_server {
    tombolo_server base; /* base.port.counts has the counters */
    const before_growth_handler *handler;
    void *context;
} before_growth_server;

/* Returns the memory that a server of this channel needs, in bytes. */
static inline size_t before_growth_server_memory(const tombolo_channel *channel)
{
    return tombolo_port_memory(channel, BEFORE_GROWTH_LIST_BYTES);
}

/* Creates a server on an open channel, in memory of the caller. Both must outlive it. Less memory than
 * before_growth_server_memory() returns suffices as long as the lists of every message fit. */
static inline tombolo_status before_growth_server_bind(
    before_growth_server *server, tombolo_channel *channel, void *memory, size_t bytes, const before_growth_handler *handler, void *context)
{
    const tombolo_needs needs = {false, false, 48};
    memset(server, 0, sizeof *server);
    server->handler = handler;
    server->context = context;
    return tombolo_port_bind(&server->base.port, channel, memory, bytes, needs);
}

/* Answers a kept call of `look`: with the reply for TOMBOLO_OK, otherwise as not served or refused.
 * Returns TOMBOLO_NOT_OUTSTANDING if the client no longer waits for it. */
static inline tombolo_status before_growth_answer_look(
    before_growth_server *server, tombolo_pending pending, tombolo_status result, const before_growth_look_reply *reply)
{
    if (pending.ordinal != 1 || !tombolo_server_forget(&server->base, pending)) {
        return tombolo_explain(TOMBOLO_NOT_OUTSTANDING, "the client no longer waits for the answer");
    }
    if (result == TOMBOLO_OK) {
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_REPLY, BEFORE_GROWTH_LOOK_REPLY_BYTES);
        before_growth_look_reply_put(&w, TOMBOLO_HEADER_BYTES, reply);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    return tombolo_server_fault(&server->base, pending, tombolo_server_why(result));
}

/* A note was seen. */
/* One-way. Returns TOMBOLO_NO_ROOM if it was not sent. */
static inline tombolo_status before_growth_send_seen(
    before_growth_server *server, const before_growth_seen *message, uint64_t timeout_ns)
{
    const tombolo_pending none = {0, 3};
    tombolo_writer w = tombolo_server_begin(&server->base, none, TOMBOLO_MESSAGE, BEFORE_GROWTH_SEEN_BYTES);
    before_growth_seen_put(&w, TOMBOLO_HEADER_BYTES, message);
    return tombolo_port_send(&server->base.port, &w, timeout_ns);
}

/* Waits for one message and serves it. Returns TOMBOLO_TIMED_OUT if there was none, TOMBOLO_CLOSED or TOMBOLO_PEER_DIED
 * if the client is gone, and TOMBOLO_NO_ROOM if it does not take its answers: close the channel then. */
static inline tombolo_status before_growth_serve(before_growth_server *server, uint64_t timeout_ns)
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
        case 2: {
            before_growth_forget message;
            memset(&message, 0, sizeof message);
            before_growth_forget_get(&r, body, body.start, &message);
            if (tombolo_is_reading(&r) && server->handler->forget != NULL) {
                server->handler->forget(server->context, &message);
            }
            return tombolo_server_took(&server->base, &r, true);
        }
        default:
            return tombolo_server_took(&server->base, &r, false);
        }
    }
    switch (pending.ordinal) {
    case 1: {
        before_growth_look_request request;
        before_growth_look_reply reply;
        memset(&request, 0, sizeof request);
        memset(&reply, 0, sizeof reply);
        before_growth_look_request_get(&r, body, body.start, &request);
        if (!tombolo_is_reading(&r)) {
            return tombolo_server_fault(&server->base, pending, 2);
        }
        (void)tombolo_server_keep(&server->base, pending);
        if (server->handler->look != NULL) {
            status = server->handler->look(server->context, pending, &request, &reply);
        }
        if (status == TOMBOLO_LATER) {
            return TOMBOLO_OK;
        }
        return before_growth_answer_look(server, pending, status, &reply);
    }
    default:
        return tombolo_server_fault(&server->base, pending, 1);
    }
}

#ifdef __cplusplus
}
#endif

#endif
