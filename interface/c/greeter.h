/*
 * A service that greets: the smallest typed call.
 *
 * Written by `tombolo idl compile --lang c` from interfaces/greeter.tbl.
 */
#ifndef GREETER_GREETER_H
#define GREETER_GREETER_H

#include <tombolo/interface.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The parameters of a message. */
typedef struct greeter_greeter_greet_request {
    tombolo_text name; /* up to 64 bytes */
} greeter_greeter_greet_request;
/* Length of its fields on the wire, in bytes. */
#define GREETER_GREETER_GREET_REQUEST_BYTES 8

static inline void greeter_greeter_greet_request_put(tombolo_writer *w, uint32_t at, const greeter_greeter_greet_request *value)
{
    tombolo_put_text(w, at, value->name, 64, "GreeterGreetRequest.name");
}

static inline void greeter_greeter_greet_request_get(tombolo_reader *r, tombolo_record in, uint32_t at, greeter_greeter_greet_request *value)
{
    value->name = tombolo_get_text(r, in, at, 64);
}

/* The results of a call. */
typedef struct greeter_greeter_greet_reply {
    tombolo_text greeting; /* up to 128 bytes */
} greeter_greeter_greet_reply;
/* Length of its fields on the wire, in bytes. */
#define GREETER_GREETER_GREET_REPLY_BYTES 8

static inline void greeter_greeter_greet_reply_put(tombolo_writer *w, uint32_t at, const greeter_greeter_greet_reply *value)
{
    tombolo_put_text(w, at, value->greeting, 128, "GreeterGreetReply.greeting");
}

static inline void greeter_greeter_greet_reply_get(tombolo_reader *r, tombolo_record in, uint32_t at, greeter_greeter_greet_reply *value)
{
    value->greeting = tombolo_get_text(r, in, at, 128);
}

/* --- interface Greeter --------------------------------------------------------------------------- */

/* Greets by name. */
#define GREETER_GREETER_VERSION 1
/* Hash of its package, name and version, which must be the same on both sides. */
#define GREETER_GREETER_HASH UINT64_C(0x7c8380208b766fea)
/* Hash of all declarations that affect peers; distinguishes builds. */
#define GREETER_GREETER_FINGERPRINT UINT64_C(0x6ede78eccb49fdbd)
/* Maximum memory for the lists of a message, in bytes. */
#define GREETER_GREETER_LIST_BYTES (0)

/* Returns the options of its channels, for tombolo_connect and tombolo_export. */
static inline tombolo_options greeter_greeter_options(void)
{
    tombolo_options options = {0, 0, 0, 0, 0, 0};
    options.interface_hash = GREETER_GREETER_HASH;
    return options;
}

/* --- client of Greeter --------------------------------------------------------------------------- */

/* The calling end of a channel. */
typedef struct greeter_greeter_client {
    tombolo_client base; /* base.port.counts has the counters */
} greeter_greeter_client;

/* Handles a one-way message. Returns false if its ordinal is unknown. */
static inline bool greeter_greeter_client_event(
    tombolo_client *base, uint16_t ordinal, tombolo_reader *r, tombolo_record body)
{
    (void)base;
    (void)ordinal;
    (void)r;
    (void)body;
    return false;
}

/* Returns the memory that a client of this channel needs, in bytes. */
static inline size_t greeter_greeter_client_memory(const tombolo_channel *channel)
{
    return tombolo_port_memory(channel, GREETER_GREETER_LIST_BYTES);
}

/* Creates a client on an open channel, in memory of the caller. Both must outlive it. Less memory than
 * greeter_greeter_client_memory() returns suffices as long as the lists of every message fit. */
static inline tombolo_status greeter_greeter_client_bind(
    greeter_greeter_client *client, tombolo_channel *channel, void *memory, size_t bytes)
{
    const tombolo_needs needs = {false, false, 16};
    memset(client, 0, sizeof *client);
    client->base.on_event = greeter_greeter_client_event;
    return tombolo_port_bind(&client->base.port, channel, memory, bytes, needs);
}

/* Waits for a one-way message and handles all that have arrived. Returns TOMBOLO_TIMED_OUT if there was none. */
static inline tombolo_status greeter_greeter_client_poll(greeter_greeter_client *client, uint64_t timeout_ns)
{
    return tombolo_client_poll(&client->base, timeout_ns);
}

/* Returns a greeting for a name. */
static inline tombolo_status greeter_greeter_call_greet(
    greeter_greeter_client *client, const greeter_greeter_greet_request *request, greeter_greeter_greet_reply *reply, uint64_t timeout_ns)
{
    tombolo_reader r;
    tombolo_record body;
    tombolo_status status;
    tombolo_writer w = tombolo_client_begin(&client->base, 1, TOMBOLO_CALL, GREETER_GREETER_GREET_REQUEST_BYTES);
    greeter_greeter_greet_request_put(&w, TOMBOLO_HEADER_BYTES, request);
    status = tombolo_client_call(&client->base, &w, 1, false, timeout_ns, &r, &body);
    if (status == TOMBOLO_OK) {
        memset(reply, 0, sizeof *reply);
        greeter_greeter_greet_reply_get(&r, body, body.start, reply);
    }
    return tombolo_client_read(&client->base, &r, status);
}

/* --- server of Greeter --------------------------------------------------------------------------- */

/* Handlers. That of a call fills in the reply and returns TOMBOLO_OK, or fills in the error and returns TOMBOLO_DECLINED,
 * or keeps `pending` for an answer later and returns TOMBOLO_LATER. With any other status, or a null handler, it is not
 * served. The request and its texts are valid until the handler returns; what the reply refers to, until it is sent. */
typedef struct greeter_greeter_handler {
    /* Returns a greeting for a name. */
    tombolo_status (*greet)(void *context, tombolo_pending pending, const greeter_greeter_greet_request *request, greeter_greeter_greet_reply *reply);
} greeter_greeter_handler;

/* The serving end of a channel. */
typedef struct greeter_greeter_server {
    tombolo_server base; /* base.port.counts has the counters */
    const greeter_greeter_handler *handler;
    void *context;
} greeter_greeter_server;

/* Returns the memory that a server of this channel needs, in bytes. */
static inline size_t greeter_greeter_server_memory(const tombolo_channel *channel)
{
    return tombolo_port_memory(channel, GREETER_GREETER_LIST_BYTES);
}

/* Creates a server on an open channel, in memory of the caller. Both must outlive it. Less memory than
 * greeter_greeter_server_memory() returns suffices as long as the lists of every message fit. */
static inline tombolo_status greeter_greeter_server_bind(
    greeter_greeter_server *server, tombolo_channel *channel, void *memory, size_t bytes, const greeter_greeter_handler *handler, void *context)
{
    const tombolo_needs needs = {false, false, 16};
    memset(server, 0, sizeof *server);
    server->handler = handler;
    server->context = context;
    return tombolo_port_bind(&server->base.port, channel, memory, bytes, needs);
}

/* Answers a kept call of `greet`: with the reply for TOMBOLO_OK, otherwise as not served or refused.
 * Returns TOMBOLO_NOT_OUTSTANDING if the client no longer waits for it. */
static inline tombolo_status greeter_greeter_answer_greet(
    greeter_greeter_server *server, tombolo_pending pending, tombolo_status result, const greeter_greeter_greet_reply *reply)
{
    if (pending.ordinal != 1 || !tombolo_server_forget(&server->base, pending)) {
        return tombolo_explain(TOMBOLO_NOT_OUTSTANDING, "the client no longer waits for the answer");
    }
    if (result == TOMBOLO_OK) {
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_REPLY, GREETER_GREETER_GREET_REPLY_BYTES);
        greeter_greeter_greet_reply_put(&w, TOMBOLO_HEADER_BYTES, reply);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    return tombolo_server_fault(&server->base, pending, tombolo_server_why(result));
}

/* Waits for one message and serves it. Returns TOMBOLO_TIMED_OUT if there was none, TOMBOLO_CLOSED or TOMBOLO_PEER_DIED
 * if the client is gone, and TOMBOLO_NO_ROOM if it does not take its answers: close the channel then. */
static inline tombolo_status greeter_greeter_serve(greeter_greeter_server *server, uint64_t timeout_ns)
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
        greeter_greeter_greet_request request;
        greeter_greeter_greet_reply reply;
        memset(&request, 0, sizeof request);
        memset(&reply, 0, sizeof reply);
        greeter_greeter_greet_request_get(&r, body, body.start, &request);
        if (!tombolo_is_reading(&r)) {
            return tombolo_server_fault(&server->base, pending, 2);
        }
        (void)tombolo_server_keep(&server->base, pending);
        if (server->handler->greet != NULL) {
            status = server->handler->greet(server->context, pending, &request, &reply);
        }
        if (status == TOMBOLO_LATER) {
            return TOMBOLO_OK;
        }
        return greeter_greeter_answer_greet(server, pending, status, &reply);
    }
    default:
        return tombolo_server_fault(&server->base, pending, 1);
    }
}

#ifdef __cplusplus
}
#endif

#endif
