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

/* The most memories that a client can register. */
#define COPIES_MAX_MEMORIES 64

/* Why an operation failed. After a failed copy, the contents of its target are unspecified. */
typedef uint8_t copies_copy_fault;
/* The memory is not registered, or was withdrawn. */
#define COPIES_COPY_FAULT_UNKNOWN_MEMORY ((copies_copy_fault)1)
/* The bytes do not lie inside the memory. */
#define COPIES_COPY_FAULT_OUT_OF_RANGE ((copies_copy_fault)2)
/* The memory was registered for reading only. */
#define COPIES_COPY_FAULT_READ_ONLY ((copies_copy_fault)3)
/* The source and the target of a copy overlap. */
#define COPIES_COPY_FAULT_OVERLAP ((copies_copy_fault)4)
/* The descriptor conflicts with one that has not ended: both use the same bytes, and at least one writes
 * them. With a fence, only descriptors of other clients conflict. For `withdraw`: such a descriptor uses
 * the memory. */
#define COPIES_COPY_FAULT_IN_USE ((copies_copy_fault)5)
/* The descriptor is fenced, and an earlier one that it waited for failed. Nothing was written. */
#define COPIES_COPY_FAULT_EARLIER ((copies_copy_fault)6)
/* The descriptor was cancelled. */
#define COPIES_COPY_FAULT_CANCELLED ((copies_copy_fault)7)
/* The right to the memory was revoked. */
#define COPIES_COPY_FAULT_REVOKED ((copies_copy_fault)8)
/* The client has as many descriptors or memories as it may have. */
#define COPIES_COPY_FAULT_TOO_MANY ((copies_copy_fault)9)
/* A descriptor with that number has not ended. */
#define COPIES_COPY_FAULT_NUMBER_IN_USE ((copies_copy_fault)10)
/* The memory cannot be copied: it is not coherent, is a file or a service, is private to its program, or
 * cannot be reached from this node. */
#define COPIES_COPY_FAULT_NOT_COPIED ((copies_copy_fault)11)
/* An engine failed. */
#define COPIES_COPY_FAULT_FAILED ((copies_copy_fault)12)

/* Returns the name in the interface file, or "unknown". */
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

/* A position in a registered memory. */
typedef struct copies_copy_place {
    /* The number from `register`. */
    uint32_t memory;
    /* The offset in the memory, in bytes. */
    uint64_t offset_bytes;
} copies_copy_place;
/* Length of its fields on the wire, in bytes. */
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

/* The parameters of a message. */
typedef struct copies_copies_register_request {
    tombolo_right memory; /* copies: capability */
} copies_copies_register_request;
/* Length of its fields on the wire, in bytes. */
#define COPIES_COPIES_REGISTER_REQUEST_BYTES 16

static inline void copies_copies_register_request_put(tombolo_writer *w, uint32_t at, const copies_copies_register_request *value)
{
    tombolo_put_right(w, at, value->memory, 0x3);
}

static inline void copies_copies_register_request_get(tombolo_reader *r, tombolo_record in, uint32_t at, copies_copies_register_request *value)
{
    value->memory = tombolo_get_right(r, in, at, 0x3);
}

/* The results of a call. */
typedef struct copies_copies_register_reply {
    uint32_t memory;
    uint64_t length_bytes;
    bool writable;
} copies_copies_register_reply;
/* Length of its fields on the wire, in bytes. */
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

/* The declared error of a call. */
typedef struct copies_copies_register_error {
    copies_copy_fault error;
} copies_copies_register_error;
/* Length of its fields on the wire, in bytes. */
#define COPIES_COPIES_REGISTER_ERROR_BYTES 8

static inline void copies_copies_register_error_put(tombolo_writer *w, uint32_t at, const copies_copies_register_error *value)
{
    tombolo_put(w, at, value->error, 1);
}

static inline void copies_copies_register_error_get(tombolo_reader *r, tombolo_record in, uint32_t at, copies_copies_register_error *value)
{
    value->error = (copies_copy_fault)tombolo_get(r, in, at);
}

/* The parameters of a message. */
typedef struct copies_copies_withdraw_request {
    uint32_t memory;
} copies_copies_withdraw_request;
/* Length of its fields on the wire, in bytes. */
#define COPIES_COPIES_WITHDRAW_REQUEST_BYTES 8

static inline void copies_copies_withdraw_request_put(tombolo_writer *w, uint32_t at, const copies_copies_withdraw_request *value)
{
    tombolo_put(w, at, value->memory, 4);
}

static inline void copies_copies_withdraw_request_get(tombolo_reader *r, tombolo_record in, uint32_t at, copies_copies_withdraw_request *value)
{
    value->memory = (uint32_t)tombolo_get(r, in, at);
}

/* The declared error of a call. */
typedef struct copies_copies_withdraw_error {
    copies_copy_fault error;
} copies_copies_withdraw_error;
/* Length of its fields on the wire, in bytes. */
#define COPIES_COPIES_WITHDRAW_ERROR_BYTES 8

static inline void copies_copies_withdraw_error_put(tombolo_writer *w, uint32_t at, const copies_copies_withdraw_error *value)
{
    tombolo_put(w, at, value->error, 1);
}

static inline void copies_copies_withdraw_error_get(tombolo_reader *r, tombolo_record in, uint32_t at, copies_copies_withdraw_error *value)
{
    value->error = (copies_copy_fault)tombolo_get(r, in, at);
}

/* The parameters of a message. */
typedef struct copies_copies_copy {
    uint32_t descriptor;
    bool fence;
    uint64_t length_bytes;
    copies_copy_place source;
    copies_copy_place target;
} copies_copies_copy;
/* Length of its fields on the wire, in bytes. */
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

/* The parameters of a message. */
typedef struct copies_copies_fill {
    uint32_t descriptor;
    bool fence;
    uint8_t byte;
    uint64_t length_bytes;
    copies_copy_place target;
} copies_copies_fill;
/* Length of its fields on the wire, in bytes. */
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

/* The parameters of a message. */
typedef struct copies_copies_cancel {
    uint32_t descriptor;
} copies_copies_cancel;
/* Length of its fields on the wire, in bytes. */
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

/* The parameters of a message. */
typedef struct copies_copies_ended {
    uint32_t descriptor;
    copies_optional_copy_fault fault;
} copies_copies_ended;
/* Length of its fields on the wire, in bytes. */
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

/* Copies and fills registered memories, and reports the end of each operation by its descriptor. */
#define COPIES_COPIES_VERSION 1
/* Hash of its package, name and version, which must be the same on both sides. */
#define COPIES_COPIES_HASH UINT64_C(0x1601b3c7d8d08854)
/* Hash of all declarations that affect peers; distinguishes builds. */
#define COPIES_COPIES_FINGERPRINT UINT64_C(0xfa31f8452274bc7c)
/* Maximum memory for the lists of a message, in bytes. */
#define COPIES_COPIES_LIST_BYTES (0)

/* Returns the options of its channels, for tombolo_connect and tombolo_export. */
static inline tombolo_options copies_copies_options(void)
{
    tombolo_options options = {0, 0, 0, 0, 0, 0};
    options.interface_hash = COPIES_COPIES_HASH;
    return options;
}

/* --- client of Copies ---------------------------------------------------------------------------- */

/* Handlers of the server's one-way messages; null to ignore a message. */
typedef struct copies_copies_events {
    /* A descriptor has ended. Events are in the order in which descriptors end. */
    void (*ended)(void *context, const copies_copies_ended *event);
} copies_copies_events;

/* The calling end of a channel. */
typedef struct copies_copies_client {
    tombolo_client base; /* base.port.counts has the counters */
    const copies_copies_events *events;
    void *context;
} copies_copies_client;

/* Handles a one-way message. Returns false if its ordinal is unknown. */
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

/* Returns the memory that a client of this channel needs, in bytes. */
static inline size_t copies_copies_client_memory(const tombolo_channel *channel)
{
    return tombolo_port_memory(channel, COPIES_COPIES_LIST_BYTES);
}

/* Creates a client on an open channel, in memory of the caller. Both must outlive it. Less memory than
 * copies_copies_client_memory() returns suffices as long as the lists of every message fit. */
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

/* Waits for a one-way message and handles all that have arrived. Returns TOMBOLO_TIMED_OUT if there was none. */
static inline tombolo_status copies_copies_client_poll(copies_copies_client *client, uint64_t timeout_ns)
{
    return tombolo_client_poll(&client->base, timeout_ns);
}

/* Registers memory: all bytes of the capability, for reading, and also for writing if it has that right. */
/* Returns TOMBOLO_DECLINED if the server declined it; `error` has the reason. */
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

/* Withdraws memory, which is then unmapped. Refused while a descriptor that has not ended uses it. */
/* Returns TOMBOLO_DECLINED if the server declined it; `error` has the reason. */
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

/* Copies bytes. The client chooses the number of the descriptor. With `fence`, the copy starts after the
 * client's earlier descriptors have ended. */
/* One-way. Returns TOMBOLO_NO_ROOM if it was not sent. */
static inline tombolo_status copies_copies_send_copy(
    copies_copies_client *client, const copies_copies_copy *message, uint64_t timeout_ns)
{
    tombolo_writer w = tombolo_client_begin(&client->base, 3, TOMBOLO_MESSAGE, COPIES_COPIES_COPY_BYTES);
    copies_copies_copy_put(&w, TOMBOLO_HEADER_BYTES, message);
    return tombolo_port_send(&client->base.port, &w, timeout_ns);
}

/* Fills memory with copies of one byte. */
/* One-way. Returns TOMBOLO_NO_ROOM if it was not sent. */
static inline tombolo_status copies_copies_send_fill(
    copies_copies_client *client, const copies_copies_fill *message, uint64_t timeout_ns)
{
    tombolo_writer w = tombolo_client_begin(&client->base, 4, TOMBOLO_MESSAGE, COPIES_COPIES_FILL_BYTES);
    copies_copies_fill_put(&w, TOMBOLO_HEADER_BYTES, message);
    return tombolo_port_send(&client->base.port, &w, timeout_ns);
}

/* Cancels a descriptor. It still ends, either as cancelled or with its result. */
/* One-way. Returns TOMBOLO_NO_ROOM if it was not sent. */
static inline tombolo_status copies_copies_send_cancel(
    copies_copies_client *client, const copies_copies_cancel *message, uint64_t timeout_ns)
{
    tombolo_writer w = tombolo_client_begin(&client->base, 5, TOMBOLO_MESSAGE, COPIES_COPIES_CANCEL_BYTES);
    copies_copies_cancel_put(&w, TOMBOLO_HEADER_BYTES, message);
    return tombolo_port_send(&client->base.port, &w, timeout_ns);
}

/* --- server of Copies ---------------------------------------------------------------------------- */

/* Handlers. That of a call fills in the reply and returns TOMBOLO_OK, or fills in the error and returns TOMBOLO_DECLINED,
 * or keeps `pending` for an answer later and returns TOMBOLO_LATER. With any other status, or a null handler, it is not
 * served. The request and its texts are valid until the handler returns; what the reply refers to, until it is sent. */
typedef struct copies_copies_handler {
    /* Registers memory: all bytes of the capability, for reading, and also for writing if it has that right. */
    tombolo_status (*register_)(void *context, tombolo_pending pending, const copies_copies_register_request *request, copies_copies_register_reply *reply, copies_copy_fault *error);
    /* Withdraws memory, which is then unmapped. Refused while a descriptor that has not ended uses it. */
    tombolo_status (*withdraw)(void *context, tombolo_pending pending, const copies_copies_withdraw_request *request, copies_copy_fault *error);
    /* Copies bytes. The client chooses the number of the descriptor. With `fence`, the copy starts after the
     * client's earlier descriptors have ended. */
    void (*copy)(void *context, const copies_copies_copy *message);
    /* Fills memory with copies of one byte. */
    void (*fill)(void *context, const copies_copies_fill *message);
    /* Cancels a descriptor. It still ends, either as cancelled or with its result. */
    void (*cancel)(void *context, const copies_copies_cancel *message);
} copies_copies_handler;

/* The serving end of a channel. */
typedef struct copies_copies_server {
    tombolo_server base; /* base.port.counts has the counters */
    const copies_copies_handler *handler;
    void *context;
} copies_copies_server;

/* Returns the memory that a server of this channel needs, in bytes. */
static inline size_t copies_copies_server_memory(const tombolo_channel *channel)
{
    return tombolo_port_memory(channel, COPIES_COPIES_LIST_BYTES);
}

/* Creates a server on an open channel, in memory of the caller. Both must outlive it. Less memory than
 * copies_copies_server_memory() returns suffices as long as the lists of every message fit. */
static inline tombolo_status copies_copies_server_bind(
    copies_copies_server *server, tombolo_channel *channel, void *memory, size_t bytes, const copies_copies_handler *handler, void *context)
{
    const tombolo_needs needs = {true, false, 56};
    memset(server, 0, sizeof *server);
    server->handler = handler;
    server->context = context;
    return tombolo_port_bind(&server->base.port, channel, memory, bytes, needs);
}

/* Answers a kept call of `register`: with the reply for TOMBOLO_OK, with the error for TOMBOLO_DECLINED, otherwise as not served or refused.
 * Returns TOMBOLO_NOT_OUTSTANDING if the client no longer waits for it. */
static inline tombolo_status copies_copies_answer_register(
    copies_copies_server *server, tombolo_pending pending, tombolo_status result, const copies_copies_register_reply *reply, const copies_copy_fault *error)
{
    if (pending.ordinal != 1 || !tombolo_server_forget(&server->base, pending)) {
        return tombolo_explain(TOMBOLO_NOT_OUTSTANDING, "the client no longer waits for the answer");
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

/* Answers a kept call of `withdraw`: with the reply for TOMBOLO_OK, with the error for TOMBOLO_DECLINED, otherwise as not served or refused.
 * Returns TOMBOLO_NOT_OUTSTANDING if the client no longer waits for it. */
static inline tombolo_status copies_copies_answer_withdraw(
    copies_copies_server *server, tombolo_pending pending, tombolo_status result, const copies_copy_fault *error)
{
    if (pending.ordinal != 2 || !tombolo_server_forget(&server->base, pending)) {
        return tombolo_explain(TOMBOLO_NOT_OUTSTANDING, "the client no longer waits for the answer");
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

/* A descriptor has ended. Events are in the order in which descriptors end. */
/* One-way. Returns TOMBOLO_NO_ROOM if it was not sent. */
static inline tombolo_status copies_copies_send_ended(
    copies_copies_server *server, const copies_copies_ended *message, uint64_t timeout_ns)
{
    const tombolo_pending none = {0, 6};
    tombolo_writer w = tombolo_server_begin(&server->base, none, TOMBOLO_MESSAGE, COPIES_COPIES_ENDED_BYTES);
    copies_copies_ended_put(&w, TOMBOLO_HEADER_BYTES, message);
    return tombolo_port_send(&server->base.port, &w, timeout_ns);
}

/* Waits for one message and serves it. Returns TOMBOLO_TIMED_OUT if there was none, TOMBOLO_CLOSED or TOMBOLO_PEER_DIED
 * if the client is gone, and TOMBOLO_NO_ROOM if it does not take its answers: close the channel then. */
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
