/*
 * A service that copies between memories of several clients.
 *
 * Written by `tombolo idl compile --lang c` from interfaces/copies.tbl.
 */
#ifndef COPIES_COPIES_H
#define COPIES_COPIES_H

#include <tombolo/interface.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most descriptors of a client that have not ended. */
#define COPIES_MAX_DESCRIPTORS 256

/* The most memories that a client registers. */
#define COPIES_MAX_MEMORIES 64

/* Why something was not done. Of a copy that failed, the bytes of its target are unspecified. */
typedef uint8_t copies_copy_fault;
/* There is no memory of that number: it was not registered, or was withdrawn. */
#define COPIES_COPY_FAULT_UNKNOWN_MEMORY ((copies_copy_fault)1)
/* The bytes do not lie in the memory. */
#define COPIES_COPY_FAULT_OUT_OF_RANGE ((copies_copy_fault)2)
/* The memory was registered for reading. */
#define COPIES_COPY_FAULT_READ_ONLY ((copies_copy_fault)3)
/* Bytes that are written are the same as those that are read. */
#define COPIES_COPY_FAULT_OVERLAP ((copies_copy_fault)4)
/* A descriptor that has not ended, perhaps of another client, and this one use the same bytes, and one
 * of both writes them; or one uses the memory that is to be withdrawn. */
#define COPIES_COPY_FAULT_IN_USE ((copies_copy_fault)5)
/* The descriptor is fenced, and one that it waited for failed. Nothing was written. */
#define COPIES_COPY_FAULT_EARLIER ((copies_copy_fault)6)
/* It was cancelled. */
#define COPIES_COPY_FAULT_CANCELLED ((copies_copy_fault)7)
/* The right to the memory was revoked. */
#define COPIES_COPY_FAULT_REVOKED ((copies_copy_fault)8)
/* As many descriptors or memories as a client may have. */
#define COPIES_COPY_FAULT_TOO_MANY ((copies_copy_fault)9)
/* A descriptor of that number has not ended. */
#define COPIES_COPY_FAULT_NUMBER_IN_USE ((copies_copy_fault)10)
/* The memory is not coherent, or is no memory: a file, or memory of a program that keeps it to itself. */
#define COPIES_COPY_FAULT_NOT_COPIED ((copies_copy_fault)11)
/* An engine failed. */
#define COPIES_COPY_FAULT_FAILED ((copies_copy_fault)12)

/* Its name in the interface file, or "unknown". */
static inline const char *copies_copy_fault_name(copies_copy_fault value)
{
    TOMBOLO_NAME(COPIES_COPY_FAULT_UNKNOWN_MEMORY, "unknown_memory");
    TOMBOLO_NAME(COPIES_COPY_FAULT_OUT_OF_RANGE, "out_of_range");
    TOMBOLO_NAME(COPIES_COPY_FAULT_READ_ONLY, "read_only");
    TOMBOLO_NAME(COPIES_COPY_FAULT_OVERLAP, "overlap");
    TOMBOLO_NAME(COPIES_COPY_FAULT_IN_USE, "in_use");
    TOMBOLO_NAME(COPIES_COPY_FAULT_EARLIER, "earlier");
    TOMBOLO_NAME(COPIES_COPY_FAULT_CANCELLED, "cancelled");
    TOMBOLO_NAME(COPIES_COPY_FAULT_REVOKED, "revoked");
    TOMBOLO_NAME(COPIES_COPY_FAULT_TOO_MANY, "too_many");
    TOMBOLO_NAME(COPIES_COPY_FAULT_NUMBER_IN_USE, "number_in_use");
    TOMBOLO_NAME(COPIES_COPY_FAULT_NOT_COPIED, "not_copied");
    TOMBOLO_NAME(COPIES_COPY_FAULT_FAILED, "failed");
    return "unknown";
}

/* Bytes of a memory that was registered. */
typedef struct copies_copy_place {
    /* The number that it was registered by. */
    uint32_t memory;
    /* From where on, in bytes. */
    uint64_t offset_bytes;
} copies_copy_place;
/* Its fields on the wire. */
#define COPIES_COPY_PLACE_BYTES 16

static inline void copies_copy_place_put(tombolo_writer *w, uint32_t at, const copies_copy_place *value)
{
    tombolo_put(w, at, value->memory, 4);
    tombolo_put(w, at + 8, value->offset_bytes, 8);
}

static inline void copies_copy_place_get(tombolo_reader *r, tombolo_record in, uint32_t at, copies_copy_place *value)
{
    value->memory = (uint32_t)tombolo_get(r, in, at);
    value->offset_bytes = (uint64_t)tombolo_get(r, in, at + 8);
}

/* What is sent. */
typedef struct copies_copies_register_request {
    tombolo_right memory; /* copies: capability */
} copies_copies_register_request;
/* Its fields on the wire. */
#define COPIES_COPIES_REGISTER_REQUEST_BYTES 16

static inline void copies_copies_register_request_put(tombolo_writer *w, uint32_t at, const copies_copies_register_request *value)
{
    tombolo_put_right(w, at, value->memory, 0x3);
}

static inline void copies_copies_register_request_get(tombolo_reader *r, tombolo_record in, uint32_t at, copies_copies_register_request *value)
{
    value->memory = tombolo_get_right(r, in, at, 0x3);
}

/* What answers. */
typedef struct copies_copies_register_reply {
    uint32_t memory;
    uint64_t length_bytes;
    bool writable;
} copies_copies_register_reply;
/* Its fields on the wire. */
#define COPIES_COPIES_REGISTER_REPLY_BYTES 24

static inline void copies_copies_register_reply_put(tombolo_writer *w, uint32_t at, const copies_copies_register_reply *value)
{
    tombolo_put(w, at, value->memory, 4);
    tombolo_put(w, at + 8, value->length_bytes, 8);
    tombolo_put(w, at + 16, value->writable ? 1 : 0, 1);
}

static inline void copies_copies_register_reply_get(tombolo_reader *r, tombolo_record in, uint32_t at, copies_copies_register_reply *value)
{
    value->memory = (uint32_t)tombolo_get(r, in, at);
    value->length_bytes = (uint64_t)tombolo_get(r, in, at + 8);
    value->writable = tombolo_get_bool(r, in, at + 16);
}

/* What declines. */
typedef struct copies_copies_register_error {
    copies_copy_fault error;
} copies_copies_register_error;
/* Its fields on the wire. */
#define COPIES_COPIES_REGISTER_ERROR_BYTES 8

static inline void copies_copies_register_error_put(tombolo_writer *w, uint32_t at, const copies_copies_register_error *value)
{
    tombolo_put(w, at, value->error, 1);
}

static inline void copies_copies_register_error_get(tombolo_reader *r, tombolo_record in, uint32_t at, copies_copies_register_error *value)
{
    value->error = (copies_copy_fault)tombolo_get(r, in, at);
}

/* What is sent. */
typedef struct copies_copies_withdraw_request {
    uint32_t memory;
} copies_copies_withdraw_request;
/* Its fields on the wire. */
#define COPIES_COPIES_WITHDRAW_REQUEST_BYTES 8

static inline void copies_copies_withdraw_request_put(tombolo_writer *w, uint32_t at, const copies_copies_withdraw_request *value)
{
    tombolo_put(w, at, value->memory, 4);
}

static inline void copies_copies_withdraw_request_get(tombolo_reader *r, tombolo_record in, uint32_t at, copies_copies_withdraw_request *value)
{
    value->memory = (uint32_t)tombolo_get(r, in, at);
}

/* What declines. */
typedef struct copies_copies_withdraw_error {
    copies_copy_fault error;
} copies_copies_withdraw_error;
/* Its fields on the wire. */
#define COPIES_COPIES_WITHDRAW_ERROR_BYTES 8

static inline void copies_copies_withdraw_error_put(tombolo_writer *w, uint32_t at, const copies_copies_withdraw_error *value)
{
    tombolo_put(w, at, value->error, 1);
}

static inline void copies_copies_withdraw_error_get(tombolo_reader *r, tombolo_record in, uint32_t at, copies_copies_withdraw_error *value)
{
    value->error = (copies_copy_fault)tombolo_get(r, in, at);
}

/* What is sent. */
typedef struct copies_copies_copy {
    uint32_t descriptor;
    bool fence;
    uint64_t length_bytes;
    copies_copy_place source;
    copies_copy_place target;
} copies_copies_copy;
/* Its fields on the wire. */
#define COPIES_COPIES_COPY_BYTES 48

static inline void copies_copies_copy_put(tombolo_writer *w, uint32_t at, const copies_copies_copy *value)
{
    tombolo_put(w, at, value->descriptor, 4);
    tombolo_put(w, at + 4, value->fence ? 1 : 0, 1);
    tombolo_put(w, at + 8, value->length_bytes, 8);
    copies_copy_place_put(w, at + 16, &value->source);
    copies_copy_place_put(w, at + 32, &value->target);
}

static inline void copies_copies_copy_get(tombolo_reader *r, tombolo_record in, uint32_t at, copies_copies_copy *value)
{
    value->descriptor = (uint32_t)tombolo_get(r, in, at);
    value->fence = tombolo_get_bool(r, in, at + 4);
    value->length_bytes = (uint64_t)tombolo_get(r, in, at + 8);
    copies_copy_place_get(r, in, at + 16, &value->source);
    copies_copy_place_get(r, in, at + 32, &value->target);
}

/* What is sent. */
typedef struct copies_copies_fill {
    uint32_t descriptor;
    bool fence;
    uint8_t byte;
    uint64_t length_bytes;
    copies_copy_place target;
} copies_copies_fill;
/* Its fields on the wire. */
#define COPIES_COPIES_FILL_BYTES 32

static inline void copies_copies_fill_put(tombolo_writer *w, uint32_t at, const copies_copies_fill *value)
{
    tombolo_put(w, at, value->descriptor, 4);
    tombolo_put(w, at + 4, value->fence ? 1 : 0, 1);
    tombolo_put(w, at + 5, value->byte, 1);
    tombolo_put(w, at + 8, value->length_bytes, 8);
    copies_copy_place_put(w, at + 16, &value->target);
}

static inline void copies_copies_fill_get(tombolo_reader *r, tombolo_record in, uint32_t at, copies_copies_fill *value)
{
    value->descriptor = (uint32_t)tombolo_get(r, in, at);
    value->fence = tombolo_get_bool(r, in, at + 4);
    value->byte = (uint8_t)tombolo_get(r, in, at + 5);
    value->length_bytes = (uint64_t)tombolo_get(r, in, at + 8);
    copies_copy_place_get(r, in, at + 16, &value->target);
}

/* What is sent. */
typedef struct copies_copies_cancel {
    uint32_t descriptor;
} copies_copies_cancel;
/* Its fields on the wire. */
#define COPIES_COPIES_CANCEL_BYTES 8

static inline void copies_copies_cancel_put(tombolo_writer *w, uint32_t at, const copies_copies_cancel *value)
{
    tombolo_put(w, at, value->descriptor, 4);
}

static inline void copies_copies_cancel_get(tombolo_reader *r, tombolo_record in, uint32_t at, copies_copies_cancel *value)
{
    value->descriptor = (uint32_t)tombolo_get(r, in, at);
}

TOMBOLO_OPTIONAL(copies_optional_copy_fault, copies_copy_fault value);

/* What is sent. */
typedef struct copies_copies_ended {
    uint32_t descriptor;
    copies_optional_copy_fault fault;
} copies_copies_ended;
/* Its fields on the wire. */
#define COPIES_COPIES_ENDED_BYTES 8

static inline void copies_copies_ended_put(tombolo_writer *w, uint32_t at, const copies_copies_ended *value)
{
    tombolo_put(w, at, value->descriptor, 4);
    if (value->fault.there) {
        tombolo_put(w, at + 4, 1, 1);
        tombolo_put(w, at + 4 + 1, value->fault.value, 1);
    }
}

static inline void copies_copies_ended_get(tombolo_reader *r, tombolo_record in, uint32_t at, copies_copies_ended *value)
{
    value->descriptor = (uint32_t)tombolo_get(r, in, at);
    value->fault.there = tombolo_get_bool(r, in, at + 4);
    if (value->fault.there) {
        value->fault.value = (copies_copy_fault)tombolo_get(r, in, at + 4 + 1);
    }
}

/* --- interface Copies ---------------------------------------------------------------------------- */

/* Copies between memories of several clients, and tells the end of each copy by its descriptor. */
#define COPIES_COPIES_VERSION 1
/* What both sides must have in common: its package, name and version. */
#define COPIES_COPIES_HASH UINT64_C(0x1601b3c7d8d08854)
/* Of everything that peers can notice: tells builds apart. */
#define COPIES_COPIES_FINGERPRINT UINT64_C(0xfa31f8452274bc7c)
/* Memory for the lists of a message, at most. */
#define COPIES_COPIES_LIST_BYTES (0)

/* How to open its channels, for tombolo_connect and tombolo_export. */
static inline tombolo_options copies_copies_options(void)
{
    tombolo_options options = {0, 0, 0, 0, 0, 0};
    options.interface_hash = COPIES_COPIES_HASH;
    return options;
}

/* --- client of Copies ---------------------------------------------------------------------------- */

/* What is done with one-way messages of the server; null for those that are passed over. */
typedef struct copies_copies_events {
    /* A descriptor has ended. In the order in which they end. */
    void (*ended)(void *context, const copies_copies_ended *event);
} copies_copies_events;

/* The calling end of a channel. */
typedef struct copies_copies_client {
    tombolo_client base; /* base.port.counts says what has passed */
    const copies_copies_events *events;
    void *context;
} copies_copies_client;

/* What this client does with a one-way message. */
static inline bool copies_copies_client_event(
    tombolo_client *base, uint16_t ordinal, tombolo_reader *r, tombolo_record body)
{
    copies_copies_client *client = (copies_copies_client *)(void *)base;
    switch (ordinal) {
    case 6: {
        copies_copies_ended event;
        memset(&event, 0, sizeof event);
        copies_copies_ended_get(r, body, body.start, &event);
        if (tombolo_is_reading(r) && client->events != NULL && client->events->ended != NULL) {
            client->events->ended(client->context, &event);
        }
        return true;
    }
    default:
        return false;
    }
}

/* The memory that a client of this channel needs, in bytes. */
static inline size_t copies_copies_client_memory(const tombolo_channel *channel)
{
    return tombolo_port_memory(channel, COPIES_COPIES_LIST_BYTES);
}

/* Makes a client of an open channel, in memory of the caller's, which both have to outlive it. Less memory than
 * copies_copies_client_memory() says does while no message has lists that do not fit. */
static inline tombolo_status copies_copies_client_bind(
    copies_copies_client *client, tombolo_channel *channel, void *memory, size_t bytes, const copies_copies_events *events, void *context)
{
    const tombolo_needs needs = {true, false, 56};
    memset(client, 0, sizeof *client);
    client->base.on_event = copies_copies_client_event;
    client->events = events;
    client->context = context;
    return tombolo_port_bind(&client->base.port, channel, memory, bytes, needs);
}

/* Takes the one-way messages that have come, waiting for the first. TOMBOLO_TIMED_OUT: there was none. */
static inline tombolo_status copies_copies_client_poll(copies_copies_client *client, uint64_t timeout_ns)
{
    return tombolo_client_poll(&client->base, timeout_ns);
}

/* Registers memory: all bytes of the capability, for reading, and for writing if it gives that right. */
/* TOMBOLO_DECLINED: `error` says why. */
static inline tombolo_status copies_copies_call_register(
    copies_copies_client *client, const copies_copies_register_request *request, copies_copies_register_reply *reply, copies_copy_fault *error, uint64_t timeout_ns)
{
    tombolo_reader r;
    tombolo_record body;
    tombolo_status status;
    tombolo_writer w = tombolo_client_begin(&client->base, 1, TOMBOLO_CALL, COPIES_COPIES_REGISTER_REQUEST_BYTES);
    copies_copies_register_request_put(&w, TOMBOLO_HEADER_BYTES, request);
    status = tombolo_client_call(&client->base, &w, 1, true, timeout_ns, &r, &body);
    if (status == TOMBOLO_OK) {
        memset(reply, 0, sizeof *reply);
        copies_copies_register_reply_get(&r, body, body.start, reply);
    }
    if (status == TOMBOLO_DECLINED) {
        copies_copies_register_error declined;
        memset(&declined, 0, sizeof declined);
        copies_copies_register_error_get(&r, body, body.start, &declined);
        *error = declined.error;
    }
    return tombolo_client_read(&client->base, &r, status);
}

/* Withdraws memory, which is unmapped then. Refused while a descriptor that has not ended uses it. */
/* TOMBOLO_DECLINED: `error` says why. */
static inline tombolo_status copies_copies_call_withdraw(
    copies_copies_client *client, const copies_copies_withdraw_request *request, copies_copy_fault *error, uint64_t timeout_ns)
{
    tombolo_reader r;
    tombolo_record body;
    tombolo_status status;
    tombolo_writer w = tombolo_client_begin(&client->base, 2, TOMBOLO_CALL, COPIES_COPIES_WITHDRAW_REQUEST_BYTES);
    copies_copies_withdraw_request_put(&w, TOMBOLO_HEADER_BYTES, request);
    status = tombolo_client_call(&client->base, &w, 2, true, timeout_ns, &r, &body);
    if (status == TOMBOLO_DECLINED) {
        copies_copies_withdraw_error declined;
        memset(&declined, 0, sizeof declined);
        copies_copies_withdraw_error_get(&r, body, body.start, &declined);
        *error = declined.error;
    }
    return tombolo_client_read(&client->base, &r, status);
}

/* Copies. The client chooses the number of the descriptor. */
/* One-way. TOMBOLO_NO_ROOM: nothing was sent. */
static inline tombolo_status copies_copies_send_copy(
    copies_copies_client *client, const copies_copies_copy *message, uint64_t timeout_ns)
{
    tombolo_writer w = tombolo_client_begin(&client->base, 3, TOMBOLO_MESSAGE, COPIES_COPIES_COPY_BYTES);
    copies_copies_copy_put(&w, TOMBOLO_HEADER_BYTES, message);
    return tombolo_port_send(&client->base.port, &w, timeout_ns);
}

/* Fills with one byte. */
/* One-way. TOMBOLO_NO_ROOM: nothing was sent. */
static inline tombolo_status copies_copies_send_fill(
    copies_copies_client *client, const copies_copies_fill *message, uint64_t timeout_ns)
{
    tombolo_writer w = tombolo_client_begin(&client->base, 4, TOMBOLO_MESSAGE, COPIES_COPIES_FILL_BYTES);
    copies_copies_fill_put(&w, TOMBOLO_HEADER_BYTES, message);
    return tombolo_port_send(&client->base.port, &w, timeout_ns);
}

/* Cancels a descriptor. It still ends, by this or with its result. */
/* One-way. TOMBOLO_NO_ROOM: nothing was sent. */
static inline tombolo_status copies_copies_send_cancel(
    copies_copies_client *client, const copies_copies_cancel *message, uint64_t timeout_ns)
{
    tombolo_writer w = tombolo_client_begin(&client->base, 5, TOMBOLO_MESSAGE, COPIES_COPIES_CANCEL_BYTES);
    copies_copies_cancel_put(&w, TOMBOLO_HEADER_BYTES, message);
    return tombolo_port_send(&client->base.port, &w, timeout_ns);
}

/* --- server of Copies ---------------------------------------------------------------------------- */

/* What serves. A call's function fills in the reply and returns TOMBOLO_OK, or the error and TOMBOLO_DECLINED, or
 * keeps `pending` for the function that answers it and returns TOMBOLO_LATER. All else, and null, is not served. The
 * request and its texts are good until it returns; what the reply refers to has to be good a moment longer. */
typedef struct copies_copies_handler {
    /* Registers memory: all bytes of the capability, for reading, and for writing if it gives that right. */
    tombolo_status (*register_)(void *context, tombolo_pending pending, const copies_copies_register_request *request, copies_copies_register_reply *reply, copies_copy_fault *error);
    /* Withdraws memory, which is unmapped then. Refused while a descriptor that has not ended uses it. */
    tombolo_status (*withdraw)(void *context, tombolo_pending pending, const copies_copies_withdraw_request *request, copies_copy_fault *error);
    /* Copies. The client chooses the number of the descriptor. */
    void (*copy)(void *context, const copies_copies_copy *message);
    /* Fills with one byte. */
    void (*fill)(void *context, const copies_copies_fill *message);
    /* Cancels a descriptor. It still ends, by this or with its result. */
    void (*cancel)(void *context, const copies_copies_cancel *message);
} copies_copies_handler;

/* The serving end of a channel. */
typedef struct copies_copies_server {
    tombolo_server base; /* base.port.counts says what has passed */
    const copies_copies_handler *handler;
    void *context;
} copies_copies_server;

/* The memory that a server of this channel needs, in bytes. */
static inline size_t copies_copies_server_memory(const tombolo_channel *channel)
{
    return tombolo_port_memory(channel, COPIES_COPIES_LIST_BYTES);
}

/* Makes a server of an open channel, in memory of the caller's, which both have to outlive it. Less memory than
 * copies_copies_server_memory() says does while no message has lists that do not fit. */
static inline tombolo_status copies_copies_server_bind(
    copies_copies_server *server, tombolo_channel *channel, void *memory, size_t bytes, const copies_copies_handler *handler, void *context)
{
    const tombolo_needs needs = {true, false, 56};
    memset(server, 0, sizeof *server);
    server->handler = handler;
    server->context = context;
    return tombolo_port_bind(&server->base.port, channel, memory, bytes, needs);
}

/* Answers a call of `register` that was kept: with the reply for TOMBOLO_OK, the error for TOMBOLO_DECLINED, else that it is not served, or refused.
 * TOMBOLO_NOT_OUTSTANDING: the client does not wait for it any more. */
static inline tombolo_status copies_copies_answer_register(
    copies_copies_server *server, tombolo_pending pending, tombolo_status result, const copies_copies_register_reply *reply, const copies_copy_fault *error)
{
    if (pending.ordinal != 1 || !tombolo_server_forget(&server->base, pending)) {
        return tombolo_explain(TOMBOLO_NOT_OUTSTANDING, "the client does not wait for the answer any more");
    }
    if (result == TOMBOLO_OK) {
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_REPLY, COPIES_COPIES_REGISTER_REPLY_BYTES);
        copies_copies_register_reply_put(&w, TOMBOLO_HEADER_BYTES, reply);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    if (result == TOMBOLO_DECLINED) {
        copies_copies_register_error declined;
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_ERROR, COPIES_COPIES_REGISTER_ERROR_BYTES);
        declined.error = *error;
        copies_copies_register_error_put(&w, TOMBOLO_HEADER_BYTES, &declined);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    return tombolo_server_fault(&server->base, pending, tombolo_server_why(result));
}

/* Answers a call of `withdraw` that was kept: with the reply for TOMBOLO_OK, the error for TOMBOLO_DECLINED, else that it is not served, or refused.
 * TOMBOLO_NOT_OUTSTANDING: the client does not wait for it any more. */
static inline tombolo_status copies_copies_answer_withdraw(
    copies_copies_server *server, tombolo_pending pending, tombolo_status result, const copies_copy_fault *error)
{
    if (pending.ordinal != 2 || !tombolo_server_forget(&server->base, pending)) {
        return tombolo_explain(TOMBOLO_NOT_OUTSTANDING, "the client does not wait for the answer any more");
    }
    if (result == TOMBOLO_OK) {
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_REPLY, 0);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    if (result == TOMBOLO_DECLINED) {
        copies_copies_withdraw_error declined;
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_ERROR, COPIES_COPIES_WITHDRAW_ERROR_BYTES);
        declined.error = *error;
        copies_copies_withdraw_error_put(&w, TOMBOLO_HEADER_BYTES, &declined);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    return tombolo_server_fault(&server->base, pending, tombolo_server_why(result));
}

/* A descriptor has ended. In the order in which they end. */
/* One-way. TOMBOLO_NO_ROOM: nothing was sent. */
static inline tombolo_status copies_copies_send_ended(
    copies_copies_server *server, const copies_copies_ended *message, uint64_t timeout_ns)
{
    const tombolo_pending none = {0, 6};
    tombolo_writer w = tombolo_server_begin(&server->base, none, TOMBOLO_MESSAGE, COPIES_COPIES_ENDED_BYTES);
    copies_copies_ended_put(&w, TOMBOLO_HEADER_BYTES, message);
    return tombolo_port_send(&server->base.port, &w, timeout_ns);
}

/* Takes one message, waiting for it, and serves it. TOMBOLO_TIMED_OUT: there was none. TOMBOLO_CLOSED, TOMBOLO_PEER_DIED:
 * the client is gone. TOMBOLO_NO_ROOM: it takes no answers, and its channel should be closed. */
static inline tombolo_status copies_copies_serve(copies_copies_server *server, uint64_t timeout_ns)
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
        case 3: {
            copies_copies_copy message;
            memset(&message, 0, sizeof message);
            copies_copies_copy_get(&r, body, body.start, &message);
            if (tombolo_is_reading(&r) && server->handler->copy != NULL) {
                server->handler->copy(server->context, &message);
            }
            return tombolo_server_took(&server->base, &r, true);
        }
        case 4: {
            copies_copies_fill message;
            memset(&message, 0, sizeof message);
            copies_copies_fill_get(&r, body, body.start, &message);
            if (tombolo_is_reading(&r) && server->handler->fill != NULL) {
                server->handler->fill(server->context, &message);
            }
            return tombolo_server_took(&server->base, &r, true);
        }
        case 5: {
            copies_copies_cancel message;
            memset(&message, 0, sizeof message);
            copies_copies_cancel_get(&r, body, body.start, &message);
            if (tombolo_is_reading(&r) && server->handler->cancel != NULL) {
                server->handler->cancel(server->context, &message);
            }
            return tombolo_server_took(&server->base, &r, true);
        }
        default:
            return tombolo_server_took(&server->base, &r, false);
        }
    }
    switch (pending.ordinal) {
    case 1: {
        copies_copies_register_request request;
        copies_copies_register_reply reply;
        copies_copy_fault error;
        memset(&request, 0, sizeof request);
        memset(&reply, 0, sizeof reply);
        memset(&error, 0, sizeof error);
        copies_copies_register_request_get(&r, body, body.start, &request);
        if (!tombolo_is_reading(&r)) {
            return tombolo_server_fault(&server->base, pending, 2);
        }
        (void)tombolo_server_keep(&server->base, pending);
        if (server->handler->register_ != NULL) {
            status = server->handler->register_(server->context, pending, &request, &reply, &error);
        }
        if (status == TOMBOLO_LATER) {
            return TOMBOLO_OK;
        }
        return copies_copies_answer_register(server, pending, status, &reply, &error);
    }
    case 2: {
        copies_copies_withdraw_request request;
        copies_copy_fault error;
        memset(&request, 0, sizeof request);
        memset(&error, 0, sizeof error);
        copies_copies_withdraw_request_get(&r, body, body.start, &request);
        if (!tombolo_is_reading(&r)) {
            return tombolo_server_fault(&server->base, pending, 2);
        }
        (void)tombolo_server_keep(&server->base, pending);
        if (server->handler->withdraw != NULL) {
            status = server->handler->withdraw(server->context, pending, &request, &error);
        }
        if (status == TOMBOLO_LATER) {
            return TOMBOLO_OK;
        }
        return copies_copies_answer_withdraw(server, pending, status, &error);
    }
    default:
        return tombolo_server_fault(&server->base, pending, 1);
    }
}

#ifdef __cplusplus
}
#endif

#endif
