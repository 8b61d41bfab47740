/*
 * The later version of an interface: tests connect it with the earlier one.
 *
 * Written by `tombolo idl compile --lang c` from interfaces/growth.tbl.
 */
#ifndef TESTING_GROWTH_H
#define TESTING_GROWTH_H

#include <tombolo/interface.h>

#include "common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An enumeration that may get further values. */
typedef uint8_t testing_mood;
#define TESTING_MOOD_CALM ((testing_mood)0)
#define TESTING_MOOD_MERRY ((testing_mood)1)

/* Returns the name in the interface file, or "unknown". */
static inline const char *testing_mood_name(testing_mood value)
{
    TOMBOLO_NAME(TESTING_MOOD_CALM, "calm");
    TOMBOLO_NAME(TESTING_MOOD_MERRY, "merry");
    return "unknown";
}

/* A structure that has got further fields. */
typedef struct testing_note {
    tombolo_text text; /* up to 32 bytes */
    testing_mood mood;
    tombolo_list_text tags; /* up to 4, each of up to 16 bytes */
    tombolo_optional_u64 due;
} testing_note;
/* Length of its fields on the wire, in bytes. */
#define TESTING_NOTE_BYTES 40

static inline void testing_note_put(tombolo_writer *w, uint32_t at, const testing_note *value)
{
    tombolo_put_text(w, at, value->text, 32, "Note.text");
    tombolo_put(w, at + 8, value->mood, 1);
    {
        const uint32_t list0 = tombolo_put_list(w, at + 16, value->tags.items, value->tags.count, 8, 4, "Note.tags");
        for (uint32_t i0 = 0; i0 < value->tags.count && tombolo_is_writing(w); i0++) {
            tombolo_put_text(w, list0 + i0 * 8, value->tags.items[i0], 16, "Note.tags");
        }
    }
    if (value->due.there) {
        tombolo_put(w, at + 24, 1, 1);
        tombolo_put(w, at + 24 + 8, value->due.value, 8);
    }
}

static inline void testing_note_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_note *value)
{
    value->text = tombolo_get_text(r, in, at, 32);
    value->mood = (testing_mood)tombolo_get(r, in, at + 8);
    {
        tombolo_record list0;
        tombolo_text *items0 = (tombolo_text *)tombolo_get_list(r, in, at + 16, 8, 4, sizeof(tombolo_text), &list0, &value->tags.count);
        for (uint32_t i0 = 0; i0 < value->tags.count && tombolo_is_reading(r); i0++) {
            items0[i0] = tombolo_get_text(r, list0, list0.start + i0 * 8, 16);
        }
        value->tags.items = items0;
    }
    value->due.there = tombolo_get_bool(r, in, at + 24);
    if (value->due.there) {
        value->due.value = (uint64_t)tombolo_get(r, in, at + 24 + 8);
    }
}

/* The parameters of a message. */
typedef struct testing_growth_look_request {
    testing_note note;
    bool detail;
} testing_growth_look_request;
/* Length of its fields on the wire, in bytes. */
#define TESTING_GROWTH_LOOK_REQUEST_BYTES 16

static inline void testing_growth_look_request_put(tombolo_writer *w, uint32_t at, const testing_growth_look_request *value)
{
    testing_note_put(w, tombolo_put_record(w, at, TESTING_NOTE_BYTES), &value->note);
    tombolo_put(w, at + 8, value->detail ? 1 : 0, 1);
}

static inline void testing_growth_look_request_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_growth_look_request *value)
{
    {
        const tombolo_record record0 = tombolo_get_record(r, in, at);
        testing_note_get(r, record0, record0.start, &value->note);
    }
    value->detail = tombolo_get_bool(r, in, at + 8);
}

#define TESTING_THING_NUMBER UINT32_C(1)
#define TESTING_THING_NAME UINT32_C(2)

/* A union that has got another case. */
typedef struct testing_thing {
    uint32_t which; /* one of the numbers above; others come from newer peers */
    union {
        uint32_t number;
        tombolo_text name; /* up to 16 bytes */
    } as;
} testing_thing;

static inline void testing_thing_put(tombolo_writer *w, uint32_t at, const testing_thing *value)
{
    switch (value->which) {
    case TESTING_THING_NUMBER:
        at = tombolo_put_case(w, at, TESTING_THING_NUMBER, 8);
        tombolo_put(w, at, value->as.number, 4);
        break;
    case TESTING_THING_NAME:
        at = tombolo_put_case(w, at, TESTING_THING_NAME, 8);
        tombolo_put_text(w, at, value->as.name, 16, "Thing.name");
        break;
    default:
        tombolo_put_fail(w, TOMBOLO_OVER_LIMIT, "Thing");
        break;
    }
}

static inline void testing_thing_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_thing *value)
{
    tombolo_record inside;
    value->which = tombolo_get_case(r, in, at, &inside);
    switch (value->which) {
    case TESTING_THING_NUMBER:
        if (tombolo_get_exactly(r, inside, 8)) {
            value->as.number = (uint32_t)tombolo_get(r, inside, inside.start);
        }
        break;
    case TESTING_THING_NAME:
        if (tombolo_get_exactly(r, inside, 8)) {
            value->as.name = tombolo_get_text(r, inside, inside.start, 16);
        }
        break;
    default:
        break;
    }
}

/* The results of a call. */
typedef struct testing_growth_look_reply {
    testing_note note;
    testing_thing thing;
    testing_stamp stamp;
    tombolo_optional_u32 count;
} testing_growth_look_reply;
/* Length of its fields on the wire, in bytes. */
#define TESTING_GROWTH_LOOK_REPLY_BYTES 48

static inline void testing_growth_look_reply_put(tombolo_writer *w, uint32_t at, const testing_growth_look_reply *value)
{
    testing_note_put(w, tombolo_put_record(w, at, TESTING_NOTE_BYTES), &value->note);
    testing_thing_put(w, at + 8, &value->thing);
    testing_stamp_put(w, at + 24, &value->stamp);
    if (value->count.there) {
        tombolo_put(w, at + 40, 1, 1);
        tombolo_put(w, at + 40 + 4, value->count.value, 4);
    }
}

static inline void testing_growth_look_reply_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_growth_look_reply *value)
{
    {
        const tombolo_record record0 = tombolo_get_record(r, in, at);
        testing_note_get(r, record0, record0.start, &value->note);
    }
    testing_thing_get(r, in, at + 8, &value->thing);
    testing_stamp_get(r, in, at + 24, &value->stamp);
    value->count.there = tombolo_get_bool(r, in, at + 40);
    if (value->count.there) {
        value->count.value = (uint32_t)tombolo_get(r, in, at + 40 + 4);
    }
}

/* The parameters of a message. */
typedef struct testing_growth_forget {
    uint32_t id;
    tombolo_text why; /* up to 16 bytes */
} testing_growth_forget;
/* Length of its fields on the wire, in bytes. */
#define TESTING_GROWTH_FORGET_BYTES 16

static inline void testing_growth_forget_put(tombolo_writer *w, uint32_t at, const testing_growth_forget *value)
{
    tombolo_put(w, at, value->id, 4);
    tombolo_put_text(w, at + 8, value->why, 16, "GrowthForget.why");
}

static inline void testing_growth_forget_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_growth_forget *value)
{
    value->id = (uint32_t)tombolo_get(r, in, at);
    value->why = tombolo_get_text(r, in, at + 8, 16);
}

/* The parameters of a message. */
typedef struct testing_growth_seen {
    uint32_t id;
    tombolo_text by; /* up to 16 bytes */
} testing_growth_seen;
/* Length of its fields on the wire, in bytes. */
#define TESTING_GROWTH_SEEN_BYTES 16

static inline void testing_growth_seen_put(tombolo_writer *w, uint32_t at, const testing_growth_seen *value)
{
    tombolo_put(w, at, value->id, 4);
    tombolo_put_text(w, at + 8, value->by, 16, "GrowthSeen.by");
}

static inline void testing_growth_seen_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_growth_seen *value)
{
    value->id = (uint32_t)tombolo_get(r, in, at);
    value->by = tombolo_get_text(r, in, at + 8, 16);
}

/* The results of a call. */
typedef struct testing_growth_number_reply {
    uint64_t id;
} testing_growth_number_reply;
/* Length of its fields on the wire, in bytes. */
#define TESTING_GROWTH_NUMBER_REPLY_BYTES 8

static inline void testing_growth_number_reply_put(tombolo_writer *w, uint32_t at, const testing_growth_number_reply *value)
{
    tombolo_put(w, at, value->id, 8);
}

static inline void testing_growth_number_reply_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_growth_number_reply *value)
{
    value->id = (uint64_t)tombolo_get(r, in, at);
}

/* --- interface Growth ---------------------------------------------------------------------------- */

/* The interface with its additions. */
#define TESTING_GROWTH_VERSION 1
/* Hash of its package, name and version, which must be the same on both sides. */
#define TESTING_GROWTH_HASH UINT64_C(0xc8fdb15f720b47d3)
/* Hash of all declarations that affect peers; distinguishes builds. */
#define TESTING_GROWTH_FINGERPRINT UINT64_C(0x89c2a7c0adc72a8d)
/* Maximum memory for the lists of a message, in bytes. */
#define TESTING_GROWTH_LIST_BYTES (4 * sizeof(tombolo_text) + 8)

/* Returns the options of its channels, for tombolo_connect and tombolo_export. */
static inline tombolo_options testing_growth_options(void)
{
    tombolo_options options = {0, 0, 0, 0, 0, 0};
    options.interface_hash = TESTING_GROWTH_HASH;
    return options;
}

/* --- client of Growth ---------------------------------------------------------------------------- */

/* Handlers of the server's one-way messages; null to ignore a message. */
typedef struct testing_growth_events {
    /* A note was seen. */
    void (*seen)(void *context, const testing_growth_seen *event);
    /* An event that the earlier version does not have. */
    void (*news)(void *context);
} testing_growth_events;

/* The calling end of a channel. */
typedef struct testing_growth_client {
    tombolo_client base; /* base.port.counts has the counters */
    const testing_growth_events *events;
    void *context;
} testing_growth_client;

/* Handles a one-way message. Returns false if its ordinal is unknown. */
static inline bool testing_growth_client_event(
    tombolo_client *base, uint16_t ordinal, tombolo_reader *r, tombolo_record body)
{
    testing_growth_client *client = (testing_growth_client *)(void *)base;
    switch (ordinal) {
    case 3: {
        testing_growth_seen event;
        memset(&event, 0, sizeof event);
        testing_growth_seen_get(r, body, body.start, &event);
        if (tombolo_is_reading(r) && client->events != NULL && client->events->seen != NULL) {
            client->events->seen(client->context, &event);
        }
        return true;
    }
    case 6: {
        if (client->events != NULL && client->events->news != NULL) {
            client->events->news(client->context);
        }
        return true;
    }
    default:
        return false;
    }
}

/* Returns the memory that a client of this channel needs, in bytes. */
static inline size_t testing_growth_client_memory(const tombolo_channel *channel)
{
    return tombolo_port_memory(channel, TESTING_GROWTH_LIST_BYTES);
}

/* Creates a client on an open channel, in memory of the caller. Both must outlive it. Less memory than
 * testing_growth_client_memory() returns suffices as long as the lists of every message fit. */
static inline tombolo_status testing_growth_client_bind(
    testing_growth_client *client, tombolo_channel *channel, void *memory, size_t bytes, const testing_growth_events *events, void *context)
{
    const tombolo_needs needs = {false, false, 56};
    memset(client, 0, sizeof *client);
    client->base.on_event = testing_growth_client_event;
    client->events = events;
    client->context = context;
    return tombolo_port_bind(&client->base.port, channel, memory, bytes, needs);
}

/* Waits for a one-way message and handles all that have arrived. Returns TOMBOLO_TIMED_OUT if there was none. */
static inline tombolo_status testing_growth_client_poll(testing_growth_client *client, uint64_t timeout_ns)
{
    return tombolo_client_poll(&client->base, timeout_ns);
}

/* Returns the note, with details. */
/* Idempotent: it may be repeated if it is unknown whether it was served. */
static inline tombolo_status testing_growth_call_look(
    testing_growth_client *client, const testing_growth_look_request *request, testing_growth_look_reply *reply, uint64_t timeout_ns)
{
    tombolo_reader r;
    tombolo_record body;
    tombolo_status status;
    tombolo_writer w = tombolo_client_begin(&client->base, 1, TOMBOLO_CALL, TESTING_GROWTH_LOOK_REQUEST_BYTES);
    testing_growth_look_request_put(&w, TOMBOLO_HEADER_BYTES, request);
    status = tombolo_client_call(&client->base, &w, 1, false, timeout_ns, &r, &body);
    if (status == TOMBOLO_OK) {
        memset(reply, 0, sizeof *reply);
        testing_growth_look_reply_get(&r, body, body.start, reply);
    }
    return tombolo_client_read(&client->base, &r, status);
}

/* A call that the earlier version does not have. */
static inline tombolo_status testing_growth_call_number(
    testing_growth_client *client, testing_growth_number_reply *reply, uint64_t timeout_ns)
{
    tombolo_reader r;
    tombolo_record body;
    tombolo_status status;
    tombolo_writer w = tombolo_client_begin(&client->base, 4, TOMBOLO_CALL, 0);
    status = tombolo_client_call(&client->base, &w, 4, false, timeout_ns, &r, &body);
    if (status == TOMBOLO_OK) {
        memset(reply, 0, sizeof *reply);
        testing_growth_number_reply_get(&r, body, body.start, reply);
    }
    return tombolo_client_read(&client->base, &r, status);
}

/* Deletes a note. */
/* One-way. Returns TOMBOLO_NO_ROOM if it was not sent. */
static inline tombolo_status testing_growth_send_forget(
    testing_growth_client *client, const testing_growth_forget *message, uint64_t timeout_ns)
{
    tombolo_writer w = tombolo_client_begin(&client->base, 2, TOMBOLO_MESSAGE, TESTING_GROWTH_FORGET_BYTES);
    testing_growth_forget_put(&w, TOMBOLO_HEADER_BYTES, message);
    return tombolo_port_send(&client->base.port, &w, timeout_ns);
}

/* A message that the earlier version does not have. */
/* One-way. Returns TOMBOLO_NO_ROOM if it was not sent. */
static inline tombolo_status testing_growth_send_poke(testing_growth_client *client, uint64_t timeout_ns)
{
    tombolo_writer w = tombolo_client_begin(&client->base, 5, TOMBOLO_MESSAGE, 0);
    return tombolo_port_send(&client->base.port, &w, timeout_ns);
}

/* --- server of Growth ---------------------------------------------------------------------------- */

/* Handlers. That of a call fills in the reply and returns TOMBOLO_OK, or fills in the error and returns TOMBOLO_DECLINED,
 * or keeps `pending` for an answer later and returns TOMBOLO_LATER. With any other status, or a null handler, it is not
 * served. The request and its texts are valid until the handler returns; what the reply refers to, until it is sent. */
typedef struct testing_growth_handler {
    /* Returns the note, with details. */
    tombolo_status (*look)(void *context, tombolo_pending pending, const testing_growth_look_request *request, testing_growth_look_reply *reply);
    /* Deletes a note. */
    void (*forget)(void *context, const testing_growth_forget *message);
    /* A call that the earlier version does not have. */
    tombolo_status (*number)(void *context, tombolo_pending pending, testing_growth_number_reply *reply);
    /* A message that the earlier version does not have. */
    void (*poke)(void *context);
} testing_growth_handler;

/* The serving end of a channel. */
typedef struct testing_growth_server {
    tombolo_server base; /* base.port.counts has the counters */
    const testing_growth_handler *handler;
    void *context;
} testing_growth_server;

/* Returns the memory that a server of this channel needs, in bytes. */
static inline size_t testing_growth_server_memory(const tombolo_channel *channel)
{
    return tombolo_port_memory(channel, TESTING_GROWTH_LIST_BYTES);
}

/* Creates a server on an open channel, in memory of the caller. Both must outlive it. Less memory than
 * testing_growth_server_memory() returns suffices as long as the lists of every message fit. */
static inline tombolo_status testing_growth_server_bind(
    testing_growth_server *server, tombolo_channel *channel, void *memory, size_t bytes, const testing_growth_handler *handler, void *context)
{
    const tombolo_needs needs = {false, false, 56};
    memset(server, 0, sizeof *server);
    server->handler = handler;
    server->context = context;
    return tombolo_port_bind(&server->base.port, channel, memory, bytes, needs);
}

/* Answers a kept call of `look`: with the reply for TOMBOLO_OK, otherwise as not served or refused.
 * Returns TOMBOLO_NOT_OUTSTANDING if the client no longer waits for it. */
static inline tombolo_status testing_growth_answer_look(
    testing_growth_server *server, tombolo_pending pending, tombolo_status result, const testing_growth_look_reply *reply)
{
    if (pending.ordinal != 1 || !tombolo_server_forget(&server->base, pending)) {
        return tombolo_explain(TOMBOLO_NOT_OUTSTANDING, "the client no longer waits for the answer");
    }
    if (result == TOMBOLO_OK) {
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_REPLY, TESTING_GROWTH_LOOK_REPLY_BYTES);
        testing_growth_look_reply_put(&w, TOMBOLO_HEADER_BYTES, reply);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    return tombolo_server_fault(&server->base, pending, tombolo_server_why(result));
}

/* Answers a kept call of `number`: with the reply for TOMBOLO_OK, otherwise as not served or refused.
 * Returns TOMBOLO_NOT_OUTSTANDING if the client no longer waits for it. */
static inline tombolo_status testing_growth_answer_number(
    testing_growth_server *server, tombolo_pending pending, tombolo_status result, const testing_growth_number_reply *reply)
{
    if (pending.ordinal != 4 || !tombolo_server_forget(&server->base, pending)) {
        return tombolo_explain(TOMBOLO_NOT_OUTSTANDING, "the client no longer waits for the answer");
    }
    if (result == TOMBOLO_OK) {
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_REPLY, TESTING_GROWTH_NUMBER_REPLY_BYTES);
        testing_growth_number_reply_put(&w, TOMBOLO_HEADER_BYTES, reply);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    return tombolo_server_fault(&server->base, pending, tombolo_server_why(result));
}

/* A note was seen. */
/* One-way. Returns TOMBOLO_NO_ROOM if it was not sent. */
static inline tombolo_status testing_growth_send_seen(
    testing_growth_server *server, const testing_growth_seen *message, uint64_t timeout_ns)
{
    const tombolo_pending none = {0, 3};
    tombolo_writer w = tombolo_server_begin(&server->base, none, TOMBOLO_MESSAGE, TESTING_GROWTH_SEEN_BYTES);
    testing_growth_seen_put(&w, TOMBOLO_HEADER_BYTES, message);
    return tombolo_port_send(&server->base.port, &w, timeout_ns);
}

/* An event that the earlier version does not have. */
/* One-way. Returns TOMBOLO_NO_ROOM if it was not sent. */
static inline tombolo_status testing_growth_send_news(testing_growth_server *server, uint64_t timeout_ns)
{
    const tombolo_pending none = {0, 6};
    tombolo_writer w = tombolo_server_begin(&server->base, none, TOMBOLO_MESSAGE, 0);
    return tombolo_port_send(&server->base.port, &w, timeout_ns);
}

/* Waits for one message and serves it. Returns TOMBOLO_TIMED_OUT if there was none, TOMBOLO_CLOSED or TOMBOLO_PEER_DIED
 * if the client is gone, and TOMBOLO_NO_ROOM if it does not take its answers: close the channel then. */
static inline tombolo_status testing_growth_serve(testing_growth_server *server, uint64_t timeout_ns)
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
            testing_growth_forget message;
            memset(&message, 0, sizeof message);
            testing_growth_forget_get(&r, body, body.start, &message);
            if (tombolo_is_reading(&r) && server->handler->forget != NULL) {
                server->handler->forget(server->context, &message);
            }
            return tombolo_server_took(&server->base, &r, true);
        }
        case 5: {
            if (server->handler->poke != NULL) {
                server->handler->poke(server->context);
            }
            return tombolo_server_took(&server->base, &r, true);
        }
        default:
            return tombolo_server_took(&server->base, &r, false);
        }
    }
    switch (pending.ordinal) {
    case 1: {
        testing_growth_look_request request;
        testing_growth_look_reply reply;
        memset(&request, 0, sizeof request);
        memset(&reply, 0, sizeof reply);
        testing_growth_look_request_get(&r, body, body.start, &request);
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
        return testing_growth_answer_look(server, pending, status, &reply);
    }
    case 4: {
        testing_growth_number_reply reply;
        memset(&reply, 0, sizeof reply);
        (void)tombolo_server_keep(&server->base, pending);
        if (server->handler->number != NULL) {
            status = server->handler->number(server->context, pending, &reply);
        }
        if (status == TOMBOLO_LATER) {
            return TOMBOLO_OK;
        }
        return testing_growth_answer_number(server, pending, status, &reply);
    }
    default:
        return tombolo_server_fault(&server->base, pending, 1);
    }
}

#ifdef __cplusplus
}
#endif

#endif
