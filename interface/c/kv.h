/*
 * A key-value store: the example service of the book.
 *
 * Written by `tombolo idl compile --lang c` from interfaces/kv.tbl.
 */
#ifndef EXAMPLE_KV_H
#define EXAMPLE_KV_H

#include <tombolo/interface.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The longest key, in bytes. */
#define EXAMPLE_MAX_KEY 64

/* The longest value, in bytes. */
#define EXAMPLE_MAX_VALUE 2048

/* Why a call was declined. */
typedef uint8_t example_kv_error;
/* The key does not exist. */
#define EXAMPLE_KV_ERROR_NOT_FOUND ((example_kv_error)1)
/* The key does not have the expected version. */
#define EXAMPLE_KV_ERROR_CONFLICT ((example_kv_error)2)
/* The store is full. */
#define EXAMPLE_KV_ERROR_FULL ((example_kv_error)3)

/* Returns the name in the interface file, or "unknown". */
static inline const char *example_kv_error_name(example_kv_error value)
{
    TOMBOLO_NAME(EXAMPLE_KV_ERROR_NOT_FOUND, "not_found");
    TOMBOLO_NAME(EXAMPLE_KV_ERROR_CONFLICT, "conflict");
    TOMBOLO_NAME(EXAMPLE_KV_ERROR_FULL, "full");
    return "unknown";
}

/* The parameters of a message. */
typedef struct example_kv_get_request {
    tombolo_text key; /* up to 64 bytes */
} example_kv_get_request;
/* Length of its fields on the wire, in bytes. */
#define EXAMPLE_KV_GET_REQUEST_BYTES 8

static inline void example_kv_get_request_put(tombolo_writer *w, uint32_t at, const example_kv_get_request *value)
{
    tombolo_put_text(w, at, value->key, 64, "KvGetRequest.key");
}

static inline void example_kv_get_request_get(tombolo_reader *r, tombolo_record in, uint32_t at, example_kv_get_request *value)
{
    value->key = tombolo_get_text(r, in, at, 64);
}

/* The results of a call. */
typedef struct example_kv_get_reply {
    tombolo_bytes value; /* up to 2048 bytes */
    uint64_t version;
} example_kv_get_reply;
/* Length of its fields on the wire, in bytes. */
#define EXAMPLE_KV_GET_REPLY_BYTES 16

static inline void example_kv_get_reply_put(tombolo_writer *w, uint32_t at, const example_kv_get_reply *value)
{
    tombolo_put_bytes(w, at, value->value, 2048, "KvGetReply.value");
    tombolo_put(w, at + 8, value->version, 8);
}

static inline void example_kv_get_reply_get(tombolo_reader *r, tombolo_record in, uint32_t at, example_kv_get_reply *value)
{
    value->value = tombolo_get_bytes(r, in, at, 2048);
    value->version = (uint64_t)tombolo_get(r, in, at + 8);
}

/* The declared error of a call. */
typedef struct example_kv_get_error {
    example_kv_error error;
} example_kv_get_error;
/* Length of its fields on the wire, in bytes. */
#define EXAMPLE_KV_GET_ERROR_BYTES 8

static inline void example_kv_get_error_put(tombolo_writer *w, uint32_t at, const example_kv_get_error *value)
{
    tombolo_put(w, at, value->error, 1);
}

static inline void example_kv_get_error_get(tombolo_reader *r, tombolo_record in, uint32_t at, example_kv_get_error *value)
{
    value->error = (example_kv_error)tombolo_get(r, in, at);
}

/* The parameters of a message. */
typedef struct example_kv_put_request {
    tombolo_text key; /* up to 64 bytes */
    tombolo_bytes value; /* up to 2048 bytes */
    tombolo_optional_u64 expected;
} example_kv_put_request;
/* Length of its fields on the wire, in bytes. */
#define EXAMPLE_KV_PUT_REQUEST_BYTES 32

static inline void example_kv_put_request_put(tombolo_writer *w, uint32_t at, const example_kv_put_request *value)
{
    tombolo_put_text(w, at, value->key, 64, "KvPutRequest.key");
    tombolo_put_bytes(w, at + 8, value->value, 2048, "KvPutRequest.value");
    if (value->expected.there) {
        tombolo_put(w, at + 16, 1, 1);
        tombolo_put(w, at + 16 + 8, value->expected.value, 8);
    }
}

static inline void example_kv_put_request_get(tombolo_reader *r, tombolo_record in, uint32_t at, example_kv_put_request *value)
{
    value->key = tombolo_get_text(r, in, at, 64);
    value->value = tombolo_get_bytes(r, in, at + 8, 2048);
    value->expected.there = tombolo_get_bool(r, in, at + 16);
    if (value->expected.there) {
        value->expected.value = (uint64_t)tombolo_get(r, in, at + 16 + 8);
    }
}

/* The results of a call. */
typedef struct example_kv_put_reply {
    uint64_t version;
} example_kv_put_reply;
/* Length of its fields on the wire, in bytes. */
#define EXAMPLE_KV_PUT_REPLY_BYTES 8

static inline void example_kv_put_reply_put(tombolo_writer *w, uint32_t at, const example_kv_put_reply *value)
{
    tombolo_put(w, at, value->version, 8);
}

static inline void example_kv_put_reply_get(tombolo_reader *r, tombolo_record in, uint32_t at, example_kv_put_reply *value)
{
    value->version = (uint64_t)tombolo_get(r, in, at);
}

/* The declared error of a call. */
typedef struct example_kv_put_error {
    example_kv_error error;
} example_kv_put_error;
/* Length of its fields on the wire, in bytes. */
#define EXAMPLE_KV_PUT_ERROR_BYTES 8

static inline void example_kv_put_error_put(tombolo_writer *w, uint32_t at, const example_kv_put_error *value)
{
    tombolo_put(w, at, value->error, 1);
}

static inline void example_kv_put_error_get(tombolo_reader *r, tombolo_record in, uint32_t at, example_kv_put_error *value)
{
    value->error = (example_kv_error)tombolo_get(r, in, at);
}

/* The parameters of a message. */
typedef struct example_kv_list_request {
    tombolo_text prefix; /* up to 64 bytes */
} example_kv_list_request;
/* Length of its fields on the wire, in bytes. */
#define EXAMPLE_KV_LIST_REQUEST_BYTES 8

static inline void example_kv_list_request_put(tombolo_writer *w, uint32_t at, const example_kv_list_request *value)
{
    tombolo_put_text(w, at, value->prefix, 64, "KvListRequest.prefix");
}

static inline void example_kv_list_request_get(tombolo_reader *r, tombolo_record in, uint32_t at, example_kv_list_request *value)
{
    value->prefix = tombolo_get_text(r, in, at, 64);
}

/* The results of a call. */
typedef struct example_kv_list_reply {
    tombolo_list_text keys; /* up to 64, each of up to 64 bytes */
} example_kv_list_reply;
/* Length of its fields on the wire, in bytes. */
#define EXAMPLE_KV_LIST_REPLY_BYTES 8

static inline void example_kv_list_reply_put(tombolo_writer *w, uint32_t at, const example_kv_list_reply *value)
{
    {
        const uint32_t list0 = tombolo_put_list(w, at, value->keys.items, value->keys.count, 8, 64, "KvListReply.keys");
        for (uint32_t i0 = 0; i0 < value->keys.count && tombolo_is_writing(w); i0++) {
            tombolo_put_text(w, list0 + i0 * 8, value->keys.items[i0], 64, "KvListReply.keys");
        }
    }
}

static inline void example_kv_list_reply_get(tombolo_reader *r, tombolo_record in, uint32_t at, example_kv_list_reply *value)
{
    {
        tombolo_record list0;
        tombolo_text *items0 = (tombolo_text *)tombolo_get_list(r, in, at, 8, 64, sizeof(tombolo_text), &list0, &value->keys.count);
        for (uint32_t i0 = 0; i0 < value->keys.count && tombolo_is_reading(r); i0++) {
            items0[i0] = tombolo_get_text(r, list0, list0.start + i0 * 8, 64);
        }
        value->keys.items = items0;
    }
}

/* The parameters of a message. */
typedef struct example_kv_await_change_request {
    tombolo_text key; /* up to 64 bytes */
} example_kv_await_change_request;
/* Length of its fields on the wire, in bytes. */
#define EXAMPLE_KV_AWAIT_CHANGE_REQUEST_BYTES 8

static inline void example_kv_await_change_request_put(tombolo_writer *w, uint32_t at, const example_kv_await_change_request *value)
{
    tombolo_put_text(w, at, value->key, 64, "KvAwaitChangeRequest.key");
}

static inline void example_kv_await_change_request_get(tombolo_reader *r, tombolo_record in, uint32_t at, example_kv_await_change_request *value)
{
    value->key = tombolo_get_text(r, in, at, 64);
}

/* The results of a call. */
typedef struct example_kv_await_change_reply {
    uint64_t version;
} example_kv_await_change_reply;
/* Length of its fields on the wire, in bytes. */
#define EXAMPLE_KV_AWAIT_CHANGE_REPLY_BYTES 8

static inline void example_kv_await_change_reply_put(tombolo_writer *w, uint32_t at, const example_kv_await_change_reply *value)
{
    tombolo_put(w, at, value->version, 8);
}

static inline void example_kv_await_change_reply_get(tombolo_reader *r, tombolo_record in, uint32_t at, example_kv_await_change_reply *value)
{
    value->version = (uint64_t)tombolo_get(r, in, at);
}

/* The declared error of a call. */
typedef struct example_kv_await_change_error {
    example_kv_error error;
} example_kv_await_change_error;
/* Length of its fields on the wire, in bytes. */
#define EXAMPLE_KV_AWAIT_CHANGE_ERROR_BYTES 8

static inline void example_kv_await_change_error_put(tombolo_writer *w, uint32_t at, const example_kv_await_change_error *value)
{
    tombolo_put(w, at, value->error, 1);
}

static inline void example_kv_await_change_error_get(tombolo_reader *r, tombolo_record in, uint32_t at, example_kv_await_change_error *value)
{
    value->error = (example_kv_error)tombolo_get(r, in, at);
}

/* The parameters of a message. */
typedef struct example_kv_forget {
    tombolo_text key; /* up to 64 bytes */
} example_kv_forget;
/* Length of its fields on the wire, in bytes. */
#define EXAMPLE_KV_FORGET_BYTES 8

static inline void example_kv_forget_put(tombolo_writer *w, uint32_t at, const example_kv_forget *value)
{
    tombolo_put_text(w, at, value->key, 64, "KvForget.key");
}

static inline void example_kv_forget_get(tombolo_reader *r, tombolo_record in, uint32_t at, example_kv_forget *value)
{
    value->key = tombolo_get_text(r, in, at, 64);
}

/* The parameters of a message. */
typedef struct example_kv_changed {
    tombolo_text key; /* up to 64 bytes */
    uint64_t version;
} example_kv_changed;
/* Length of its fields on the wire, in bytes. */
#define EXAMPLE_KV_CHANGED_BYTES 16

static inline void example_kv_changed_put(tombolo_writer *w, uint32_t at, const example_kv_changed *value)
{
    tombolo_put_text(w, at, value->key, 64, "KvChanged.key");
    tombolo_put(w, at + 8, value->version, 8);
}

static inline void example_kv_changed_get(tombolo_reader *r, tombolo_record in, uint32_t at, example_kv_changed *value)
{
    value->key = tombolo_get_text(r, in, at, 64);
    value->version = (uint64_t)tombolo_get(r, in, at + 8);
}

/* --- interface Kv -------------------------------------------------------------------------------- */

/* A key-value store. */
#define EXAMPLE_KV_VERSION 1
/* Hash of its package, name and version, which must be the same on both sides. */
#define EXAMPLE_KV_HASH UINT64_C(0x07b5d475eb0914df)
/* Hash of all declarations that affect peers; distinguishes builds. */
#define EXAMPLE_KV_FINGERPRINT UINT64_C(0xe720e3936141ea35)
/* Maximum memory for the lists of a message, in bytes. */
#define EXAMPLE_KV_LIST_BYTES (64 * sizeof(tombolo_text) + 8)

/* Returns the options of its channels, for tombolo_connect and tombolo_export. */
static inline tombolo_options example_kv_options(void)
{
    tombolo_options options = {0, 0, 0, 0, 0, 0};
    options.interface_hash = EXAMPLE_KV_HASH;
    return options;
}

/* --- client of Kv -------------------------------------------------------------------------------- */

/* Handlers of the server's one-way messages; null to ignore a message. */
typedef struct example_kv_events {
    /* A key was set by any client. */
    void (*changed)(void *context, const example_kv_changed *event);
} example_kv_events;

/* The calling end of a channel. */
typedef struct example_kv_client {
    tombolo_client base; /* base.port.counts has the counters */
    const example_kv_events *events;
    void *context;
} example_kv_client;

/* Handles a one-way message. Returns false if its ordinal is unknown. */
static inline bool example_kv_client_event(
    tombolo_client *base, uint16_t ordinal, tombolo_reader *r, tombolo_record body)
{
    example_kv_client *client = (example_kv_client *)(void *)base;
    switch (ordinal) {
    case 6: {
        example_kv_changed event;
        memset(&event, 0, sizeof event);
        example_kv_changed_get(r, body, body.start, &event);
        if (tombolo_is_reading(r) && client->events != NULL && client->events->changed != NULL) {
            client->events->changed(client->context, &event);
        }
        return true;
    }
    default:
        return false;
    }
}

/* Returns the memory that a client of this channel needs, in bytes. */
static inline size_t example_kv_client_memory(const tombolo_channel *channel)
{
    return tombolo_port_memory(channel, EXAMPLE_KV_LIST_BYTES);
}

/* Creates a client on an open channel, in memory of the caller. Both must outlive it. Less memory than
 * example_kv_client_memory() returns suffices as long as the lists of every message fit. */
static inline tombolo_status example_kv_client_bind(
    example_kv_client *client, tombolo_channel *channel, void *memory, size_t bytes, const example_kv_events *events, void *context)
{
    const tombolo_needs needs = {false, false, 40};
    memset(client, 0, sizeof *client);
    client->base.on_event = example_kv_client_event;
    client->events = events;
    client->context = context;
    return tombolo_port_bind(&client->base.port, channel, memory, bytes, needs);
}

/* Waits for a one-way message and handles all that have arrived. Returns TOMBOLO_TIMED_OUT if there was none. */
static inline tombolo_status example_kv_client_poll(example_kv_client *client, uint64_t timeout_ns)
{
    return tombolo_client_poll(&client->base, timeout_ns);
}

/* Returns the value of a key and its version: the number of times it was set. */
/* Idempotent: it may be repeated if it is unknown whether it was served. */
/* Returns TOMBOLO_DECLINED if the server declined it; `error` has the reason. */
static inline tombolo_status example_kv_call_get(
    example_kv_client *client, const example_kv_get_request *request, example_kv_get_reply *reply, example_kv_error *error, uint64_t timeout_ns)
{
    tombolo_reader r;
    tombolo_record body;
    tombolo_status status;
    tombolo_writer w = tombolo_client_begin(&client->base, 1, TOMBOLO_CALL, EXAMPLE_KV_GET_REQUEST_BYTES);
    example_kv_get_request_put(&w, TOMBOLO_HEADER_BYTES, request);
    status = tombolo_client_call(&client->base, &w, 1, true, timeout_ns, &r, &body);
    if (status == TOMBOLO_OK) {
        memset(reply, 0, sizeof *reply);
        example_kv_get_reply_get(&r, body, body.start, reply);
    }
    if (status == TOMBOLO_DECLINED) {
        example_kv_get_error declined;
        memset(&declined, 0, sizeof declined);
        example_kv_get_error_get(&r, body, body.start, &declined);
        *error = declined.error;
    }
    return tombolo_client_read(&client->base, &r, status);
}

/* Sets a key and returns its new version. Fails if another version was expected. */
/* Returns TOMBOLO_DECLINED if the server declined it; `error` has the reason. */
static inline tombolo_status example_kv_call_put(
    example_kv_client *client, const example_kv_put_request *request, example_kv_put_reply *reply, example_kv_error *error, uint64_t timeout_ns)
{
    tombolo_reader r;
    tombolo_record body;
    tombolo_status status;
    tombolo_writer w = tombolo_client_begin(&client->base, 2, TOMBOLO_CALL, EXAMPLE_KV_PUT_REQUEST_BYTES);
    example_kv_put_request_put(&w, TOMBOLO_HEADER_BYTES, request);
    status = tombolo_client_call(&client->base, &w, 2, true, timeout_ns, &r, &body);
    if (status == TOMBOLO_OK) {
        memset(reply, 0, sizeof *reply);
        example_kv_put_reply_get(&r, body, body.start, reply);
    }
    if (status == TOMBOLO_DECLINED) {
        example_kv_put_error declined;
        memset(&declined, 0, sizeof declined);
        example_kv_put_error_get(&r, body, body.start, &declined);
        *error = declined.error;
    }
    return tombolo_client_read(&client->base, &r, status);
}

/* Returns up to 64 keys that begin with a prefix. */
/* Idempotent: it may be repeated if it is unknown whether it was served. */
static inline tombolo_status example_kv_call_list(
    example_kv_client *client, const example_kv_list_request *request, example_kv_list_reply *reply, uint64_t timeout_ns)
{
    tombolo_reader r;
    tombolo_record body;
    tombolo_status status;
    tombolo_writer w = tombolo_client_begin(&client->base, 3, TOMBOLO_CALL, EXAMPLE_KV_LIST_REQUEST_BYTES);
    example_kv_list_request_put(&w, TOMBOLO_HEADER_BYTES, request);
    status = tombolo_client_call(&client->base, &w, 3, false, timeout_ns, &r, &body);
    if (status == TOMBOLO_OK) {
        memset(reply, 0, sizeof *reply);
        example_kv_list_reply_get(&r, body, body.start, reply);
    }
    return tombolo_client_read(&client->base, &r, status);
}

/* Waits until a key is set, and returns its new version. */
/* Idempotent: it may be repeated if it is unknown whether it was served. */
/* Returns TOMBOLO_DECLINED if the server declined it; `error` has the reason. */
static inline tombolo_status example_kv_call_await_change(
    example_kv_client *client, const example_kv_await_change_request *request, example_kv_await_change_reply *reply, example_kv_error *error, uint64_t timeout_ns)
{
    tombolo_reader r;
    tombolo_record body;
    tombolo_status status;
    tombolo_writer w = tombolo_client_begin(&client->base, 4, TOMBOLO_CALL, EXAMPLE_KV_AWAIT_CHANGE_REQUEST_BYTES);
    example_kv_await_change_request_put(&w, TOMBOLO_HEADER_BYTES, request);
    status = tombolo_client_call(&client->base, &w, 4, true, timeout_ns, &r, &body);
    if (status == TOMBOLO_OK) {
        memset(reply, 0, sizeof *reply);
        example_kv_await_change_reply_get(&r, body, body.start, reply);
    }
    if (status == TOMBOLO_DECLINED) {
        example_kv_await_change_error declined;
        memset(&declined, 0, sizeof declined);
        example_kv_await_change_error_get(&r, body, body.start, &declined);
        *error = declined.error;
    }
    return tombolo_client_read(&client->base, &r, status);
}

/* Deletes a key if it exists. There is no answer. */
/* One-way. Returns TOMBOLO_NO_ROOM if it was not sent. */
static inline tombolo_status example_kv_send_forget(
    example_kv_client *client, const example_kv_forget *message, uint64_t timeout_ns)
{
    tombolo_writer w = tombolo_client_begin(&client->base, 5, TOMBOLO_MESSAGE, EXAMPLE_KV_FORGET_BYTES);
    example_kv_forget_put(&w, TOMBOLO_HEADER_BYTES, message);
    return tombolo_port_send(&client->base.port, &w, timeout_ns);
}

/* --- server of Kv -------------------------------------------------------------------------------- */

/* Handlers. That of a call fills in the reply and returns TOMBOLO_OK, or fills in the error and returns TOMBOLO_DECLINED,
 * or keeps `pending` for an answer later and returns TOMBOLO_LATER. With any other status, or a null handler, it is not
 * served. The request and its texts are valid until the handler returns; what the reply refers to, until it is sent. */
typedef struct example_kv_handler {
    /* Returns the value of a key and its version: the number of times it was set. */
    tombolo_status (*get)(void *context, tombolo_pending pending, const example_kv_get_request *request, example_kv_get_reply *reply, example_kv_error *error);
    /* Sets a key and returns its new version. Fails if another version was expected. */
    tombolo_status (*put)(void *context, tombolo_pending pending, const example_kv_put_request *request, example_kv_put_reply *reply, example_kv_error *error);
    /* Returns up to 64 keys that begin with a prefix. */
    tombolo_status (*list)(void *context, tombolo_pending pending, const example_kv_list_request *request, example_kv_list_reply *reply);
    /* Waits until a key is set, and returns its new version. */
    tombolo_status (*await_change)(void *context, tombolo_pending pending, const example_kv_await_change_request *request, example_kv_await_change_reply *reply, example_kv_error *error);
    /* Deletes a key if it exists. There is no answer. */
    void (*forget)(void *context, const example_kv_forget *message);
} example_kv_handler;

/* The serving end of a channel. */
typedef struct example_kv_server {
    tombolo_server base; /* base.port.counts has the counters */
    const example_kv_handler *handler;
    void *context;
} example_kv_server;

/* Returns the memory that a server of this channel needs, in bytes. */
static inline size_t example_kv_server_memory(const tombolo_channel *channel)
{
    return tombolo_port_memory(channel, EXAMPLE_KV_LIST_BYTES);
}

/* Creates a server on an open channel, in memory of the caller. Both must outlive it. Less memory than
 * example_kv_server_memory() returns suffices as long as the lists of every message fit. */
static inline tombolo_status example_kv_server_bind(
    example_kv_server *server, tombolo_channel *channel, void *memory, size_t bytes, const example_kv_handler *handler, void *context)
{
    const tombolo_needs needs = {false, false, 40};
    memset(server, 0, sizeof *server);
    server->handler = handler;
    server->context = context;
    return tombolo_port_bind(&server->base.port, channel, memory, bytes, needs);
}

/* Answers a kept call of `get`: with the reply for TOMBOLO_OK, with the error for TOMBOLO_DECLINED, otherwise as not served or refused.
 * Returns TOMBOLO_NOT_OUTSTANDING if the client no longer waits for it. */
static inline tombolo_status example_kv_answer_get(
    example_kv_server *server, tombolo_pending pending, tombolo_status result, const example_kv_get_reply *reply, const example_kv_error *error)
{
    if (pending.ordinal != 1 || !tombolo_server_forget(&server->base, pending)) {
        return tombolo_explain(TOMBOLO_NOT_OUTSTANDING, "the client no longer waits for the answer");
    }
    if (result == TOMBOLO_OK) {
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_REPLY, EXAMPLE_KV_GET_REPLY_BYTES);
        example_kv_get_reply_put(&w, TOMBOLO_HEADER_BYTES, reply);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    if (result == TOMBOLO_DECLINED) {
        example_kv_get_error declined;
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_ERROR, EXAMPLE_KV_GET_ERROR_BYTES);
        declined.error = *error;
        example_kv_get_error_put(&w, TOMBOLO_HEADER_BYTES, &declined);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    return tombolo_server_fault(&server->base, pending, tombolo_server_why(result));
}

/* Answers a kept call of `put`: with the reply for TOMBOLO_OK, with the error for TOMBOLO_DECLINED, otherwise as not served or refused.
 * Returns TOMBOLO_NOT_OUTSTANDING if the client no longer waits for it. */
static inline tombolo_status example_kv_answer_put(
    example_kv_server *server, tombolo_pending pending, tombolo_status result, const example_kv_put_reply *reply, const example_kv_error *error)
{
    if (pending.ordinal != 2 || !tombolo_server_forget(&server->base, pending)) {
        return tombolo_explain(TOMBOLO_NOT_OUTSTANDING, "the client no longer waits for the answer");
    }
    if (result == TOMBOLO_OK) {
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_REPLY, EXAMPLE_KV_PUT_REPLY_BYTES);
        example_kv_put_reply_put(&w, TOMBOLO_HEADER_BYTES, reply);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    if (result == TOMBOLO_DECLINED) {
        example_kv_put_error declined;
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_ERROR, EXAMPLE_KV_PUT_ERROR_BYTES);
        declined.error = *error;
        example_kv_put_error_put(&w, TOMBOLO_HEADER_BYTES, &declined);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    return tombolo_server_fault(&server->base, pending, tombolo_server_why(result));
}

/* Answers a kept call of `list`: with the reply for TOMBOLO_OK, otherwise as not served or refused.
 * Returns TOMBOLO_NOT_OUTSTANDING if the client no longer waits for it. */
static inline tombolo_status example_kv_answer_list(
    example_kv_server *server, tombolo_pending pending, tombolo_status result, const example_kv_list_reply *reply)
{
    if (pending.ordinal != 3 || !tombolo_server_forget(&server->base, pending)) {
        return tombolo_explain(TOMBOLO_NOT_OUTSTANDING, "the client no longer waits for the answer");
    }
    if (result == TOMBOLO_OK) {
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_REPLY, EXAMPLE_KV_LIST_REPLY_BYTES);
        example_kv_list_reply_put(&w, TOMBOLO_HEADER_BYTES, reply);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    return tombolo_server_fault(&server->base, pending, tombolo_server_why(result));
}

/* Answers a kept call of `await_change`: with the reply for TOMBOLO_OK, with the error for TOMBOLO_DECLINED, otherwise as not served or refused.
 * Returns TOMBOLO_NOT_OUTSTANDING if the client no longer waits for it. */
static inline tombolo_status example_kv_answer_await_change(
    example_kv_server *server, tombolo_pending pending, tombolo_status result, const example_kv_await_change_reply *reply, const example_kv_error *error)
{
    if (pending.ordinal != 4 || !tombolo_server_forget(&server->base, pending)) {
        return tombolo_explain(TOMBOLO_NOT_OUTSTANDING, "the client no longer waits for the answer");
    }
    if (result == TOMBOLO_OK) {
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_REPLY, EXAMPLE_KV_AWAIT_CHANGE_REPLY_BYTES);
        example_kv_await_change_reply_put(&w, TOMBOLO_HEADER_BYTES, reply);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    if (result == TOMBOLO_DECLINED) {
        example_kv_await_change_error declined;
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_ERROR, EXAMPLE_KV_AWAIT_CHANGE_ERROR_BYTES);
        declined.error = *error;
        example_kv_await_change_error_put(&w, TOMBOLO_HEADER_BYTES, &declined);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    return tombolo_server_fault(&server->base, pending, tombolo_server_why(result));
}

/* A key was set by any client. */
/* One-way. Returns TOMBOLO_NO_ROOM if it was not sent. */
static inline tombolo_status example_kv_send_changed(
    example_kv_server *server, const example_kv_changed *message, uint64_t timeout_ns)
{
    const tombolo_pending none = {0, 6};
    tombolo_writer w = tombolo_server_begin(&server->base, none, TOMBOLO_MESSAGE, EXAMPLE_KV_CHANGED_BYTES);
    example_kv_changed_put(&w, TOMBOLO_HEADER_BYTES, message);
    return tombolo_port_send(&server->base.port, &w, timeout_ns);
}

/* Waits for one message and serves it. Returns TOMBOLO_TIMED_OUT if there was none, TOMBOLO_CLOSED or TOMBOLO_PEER_DIED
 * if the client is gone, and TOMBOLO_NO_ROOM if it does not take its answers: close the channel then. */
static inline tombolo_status example_kv_serve(example_kv_server *server, uint64_t timeout_ns)
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
        case 5: {
            example_kv_forget message;
            memset(&message, 0, sizeof message);
            example_kv_forget_get(&r, body, body.start, &message);
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
        example_kv_get_request request;
        example_kv_get_reply reply;
        example_kv_error error;
        memset(&request, 0, sizeof request);
        memset(&reply, 0, sizeof reply);
        memset(&error, 0, sizeof error);
        example_kv_get_request_get(&r, body, body.start, &request);
        if (!tombolo_is_reading(&r)) {
            return tombolo_server_fault(&server->base, pending, 2);
        }
        (void)tombolo_server_keep(&server->base, pending);
        if (server->handler->get != NULL) {
            status = server->handler->get(server->context, pending, &request, &reply, &error);
        }
        if (status == TOMBOLO_LATER) {
            return TOMBOLO_OK;
        }
        return example_kv_answer_get(server, pending, status, &reply, &error);
    }
    case 2: {
        example_kv_put_request request;
        example_kv_put_reply reply;
        example_kv_error error;
        memset(&request, 0, sizeof request);
        memset(&reply, 0, sizeof reply);
        memset(&error, 0, sizeof error);
        example_kv_put_request_get(&r, body, body.start, &request);
        if (!tombolo_is_reading(&r)) {
            return tombolo_server_fault(&server->base, pending, 2);
        }
        (void)tombolo_server_keep(&server->base, pending);
        if (server->handler->put != NULL) {
            status = server->handler->put(server->context, pending, &request, &reply, &error);
        }
        if (status == TOMBOLO_LATER) {
            return TOMBOLO_OK;
        }
        return example_kv_answer_put(server, pending, status, &reply, &error);
    }
    case 3: {
        example_kv_list_request request;
        example_kv_list_reply reply;
        memset(&request, 0, sizeof request);
        memset(&reply, 0, sizeof reply);
        example_kv_list_request_get(&r, body, body.start, &request);
        if (!tombolo_is_reading(&r)) {
            return tombolo_server_fault(&server->base, pending, 2);
        }
        (void)tombolo_server_keep(&server->base, pending);
        if (server->handler->list != NULL) {
            status = server->handler->list(server->context, pending, &request, &reply);
        }
        if (status == TOMBOLO_LATER) {
            return TOMBOLO_OK;
        }
        return example_kv_answer_list(server, pending, status, &reply);
    }
    case 4: {
        example_kv_await_change_request request;
        example_kv_await_change_reply reply;
        example_kv_error error;
        memset(&request, 0, sizeof request);
        memset(&reply, 0, sizeof reply);
        memset(&error, 0, sizeof error);
        example_kv_await_change_request_get(&r, body, body.start, &request);
        if (!tombolo_is_reading(&r)) {
            return tombolo_server_fault(&server->base, pending, 2);
        }
        (void)tombolo_server_keep(&server->base, pending);
        if (server->handler->await_change != NULL) {
            status = server->handler->await_change(server->context, pending, &request, &reply, &error);
        }
        if (status == TOMBOLO_LATER) {
            return TOMBOLO_OK;
        }
        return example_kv_answer_await_change(server, pending, status, &reply, &error);
    }
    default:
        return tombolo_server_fault(&server->base, pending, 1);
    }
}

#ifdef __cplusplus
}
#endif

#endif
