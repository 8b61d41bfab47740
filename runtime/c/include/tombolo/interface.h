/*
 * Runtime of generated clients and servers. Programs use the functions of the generated headers.
 *
 * A client or server uses memory supplied by the caller for messages and the lists in them. Values that it returns point into that
 * memory and are valid until its next use. It belongs to its channel's thread, and does not close the channel.
 */
#ifndef TOMBOLO_INTERFACE_H
#define TOMBOLO_INTERFACE_H

#include "wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Maximum number of outstanding calls per client. */
#define TOMBOLO_MAX_OUTSTANDING 256

/* How long a server waits for room for an answer before it gives up on the client. */
#define TOMBOLO_ANSWER_TIMEOUT (10 * TOMBOLO_SECOND)

/* Counters of a client or a server. */
typedef struct tombolo_counts {
    uint64_t calls;     /* made or received */
    uint64_t answers;   /* received or sent */
    uint64_t messages;  /* one-way, received */
    uint64_t late;      /* answers that arrived after their call was given up */
    uint64_t unknown;   /* with an ordinal that this side does not know */
    uint64_t malformed; /* refused */
    uint64_t refused;   /* calls with a right that the server was not given */
} tombolo_counts;

/* Requirements of an interface on its link. */
typedef struct tombolo_needs {
    bool capabilities;      /* rights to memory and endpoints */
    bool buffers;           /* bulk memory */
    uint32_t message_bytes; /* length of the longest message, with everything of variable length empty */
} tombolo_needs;

/* --- a channel with its memory ------------------------------------------------------------------------------------- */

typedef struct tombolo_port {
    tombolo_channel *channel;
    uint8_t *received; /* as long as any message of the channel */
    uint8_t *sent;     /* as long; separate, as what is sent may refer to what was received */
    size_t max_bytes;
    tombolo_memory lists;
    tombolo_counts counts;
} tombolo_port;

/* Returns the memory needed for one message each way and for lists of up to `list_bytes`. */
static inline size_t tombolo_port_memory(const tombolo_channel *channel, size_t list_bytes)
{
    return 2 * (tombolo_max_message_bytes(channel) + 8) + list_bytes + 8;
}

static inline tombolo_status tombolo_port_bind(tombolo_port *port, tombolo_channel *channel, void *memory, size_t bytes,
                                               tombolo_needs needs)
{
    tombolo_memory all;
    memset(port, 0, sizeof *port);
    if (channel == NULL || memory == NULL) {
        return tombolo_explain(TOMBOLO_INVALID_ARGUMENT, "the channel or the memory is null");
    }
    if (needs.capabilities || needs.buffers) {
        const tombolo_status status = tombolo_carry(channel, needs.capabilities, needs.buffers);
        if (status != TOMBOLO_OK) {
            return status;
        }
    }
    port->channel = channel;
    port->max_bytes = tombolo_max_message_bytes(channel);
    if (port->max_bytes < needs.message_bytes) {
        return tombolo_explain(TOMBOLO_TOO_LONG, "the interface has messages that are too long for this channel: open it with larger rings");
    }
    all.start = (uint8_t *)memory;
    all.bytes = bytes;
    all.used = 0;
    port->received = (uint8_t *)tombolo_memory_take(&all, port->max_bytes);
    port->sent = (uint8_t *)tombolo_memory_take(&all, port->max_bytes);
    if (port->received == NULL || port->sent == NULL) {
        return tombolo_explain(TOMBOLO_NO_MEMORY, "the memory does not hold the messages of the channel");
    }
    port->lists.start = all.start + all.used;
    port->lists.bytes = all.bytes - all.used;
    return TOMBOLO_OK;
}

/* Returns the time left until a deadline on the clock of tombolo_now_ns(). */
static inline uint64_t tombolo_left_ns(uint64_t deadline_ns)
{
    const uint64_t now_ns = tombolo_now_ns();
    return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

static inline uint64_t tombolo_deadline(uint64_t timeout_ns)
{
    const uint64_t now_ns = tombolo_now_ns();
    return timeout_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + timeout_ns;
}

/* Sends the written message, or returns the writer's error. TOMBOLO_NO_ROOM: nothing was sent. */
static inline tombolo_status tombolo_port_send(tombolo_port *port, const tombolo_writer *w, uint64_t timeout_ns)
{
    tombolo_status status = w->status;
    if (status == TOMBOLO_OVER_LIMIT || status == TOMBOLO_TOO_LONG) {
        return tombolo_explain(status, w->field);
    }
    status = tombolo_send(port->channel, w->start, w->next, timeout_ns);
    if (status == TOMBOLO_WOULD_BLOCK || status == TOMBOLO_TIMED_OUT) {
        return tombolo_explain(TOMBOLO_NO_ROOM, "the channel had no room for the message in time: nothing was sent");
    }
    return status;
}

/* Receives a message and reads its header. TOMBOLO_TIMED_OUT: there was none. */
static inline tombolo_status tombolo_port_receive(tombolo_port *port, uint64_t timeout_ns, tombolo_reader *r,
                                                  tombolo_header *header, tombolo_record *body)
{
    size_t length = 0;
    tombolo_status status = tombolo_receive(port->channel, port->received, port->max_bytes, &length, timeout_ns);
    if (status == TOMBOLO_WOULD_BLOCK) {
        status = tombolo_explain(TOMBOLO_TIMED_OUT, "no message came in time");
    }
    if (status == TOMBOLO_OK) {
        port->lists.used = 0;
        *r = tombolo_read(port->received, length, &port->lists, header, body);
    }
    return status;
}

/* --- clients ------------------------------------------------------------------------------------------------------- */

typedef struct tombolo_client tombolo_client;

/* Handles an event. Returns false for an unknown ordinal. */
typedef bool tombolo_on_event(tombolo_client *client, uint16_t ordinal, tombolo_reader *r, tombolo_record body);

/* Calling end of a channel, with one call in flight at a time. */
struct tombolo_client {
    tombolo_port port;
    tombolo_on_event *on_event;
    uint32_t call; /* number of the last call */
};

/* Begins a call or a one-way message. */
static inline tombolo_writer tombolo_client_begin(tombolo_client *client, uint16_t ordinal, uint8_t kind,
                                                  uint32_t body_bytes)
{
    tombolo_header header;
    header.ordinal = ordinal;
    header.kind = kind;
    header.call = 0;
    if (kind == TOMBOLO_CALL) {
        client->call = client->call >= 0xffffff ? 1 : client->call + 1;
        header.call = client->call;
    }
    return tombolo_write(client->port.sent, client->port.max_bytes, header, body_bytes);
}

/* Returns the status of a call whose results or error have been read: malformed ones become an error. */
static inline tombolo_status tombolo_client_read(tombolo_client *client, const tombolo_reader *r, tombolo_status status)
{
    if ((status != TOMBOLO_OK && status != TOMBOLO_DECLINED) || tombolo_is_reading(r)) {
        return status;
    }
    client->port.counts.malformed++;
    return tombolo_explain(r->status, r->why);
}

static inline tombolo_status tombolo_fault_status(uint32_t fault)
{
    switch (fault) {
    case 1:
        return tombolo_explain(TOMBOLO_UNKNOWN_CALL, "the server does not know this call: it may be older than the client");
    case 2:
        return tombolo_explain(TOMBOLO_REQUEST_REFUSED, "the server refused the request as malformed");
    case 3:
        return tombolo_explain(TOMBOLO_UNSERVED, "the server does not serve this call");
    case 4:
        return tombolo_explain(TOMBOLO_ANSWER_TOO_LONG, "the answer is longer than the interface or the channel allows");
    case 5:
        return tombolo_explain(TOMBOLO_SERVER_BUSY, "too many calls of this client wait for their answers");
    case 6:
        return tombolo_explain(TOMBOLO_RIGHT_REFUSED, "the server was not given a right that came with the request, or has it no more");
    case 7:
        return tombolo_explain(TOMBOLO_FAULT, "the server dropped the call without an answer");
    default:
        return tombolo_explain(TOMBOLO_FAULT, "the server gave a reason that is unknown here");
    }
}

/* Processes a message that is not the awaited answer. */
static inline void tombolo_client_take(tombolo_client *client, const tombolo_header *header, tombolo_reader *r,
                                       tombolo_record body)
{
    tombolo_counts *counts = &client->port.counts;
    if (!tombolo_is_reading(r) || header->kind == TOMBOLO_CALL || header->kind == TOMBOLO_CANCEL) {
        counts->malformed++;
    } else if (header->kind != TOMBOLO_MESSAGE) {
        counts->late++;
    } else if (!client->on_event(client, header->ordinal, r, body)) {
        counts->unknown++;
    } else if (!tombolo_is_reading(r)) {
        counts->malformed++;
    } else {
        counts->messages++;
    }
}

/* Processes the messages that have arrived, waiting for the first. TOMBOLO_TIMED_OUT: none arrived. */
static inline tombolo_status tombolo_client_poll(tombolo_client *client, uint64_t timeout_ns)
{
    tombolo_status status = TOMBOLO_OK;
    for (int taken = 0; taken < 1024; taken++) {
        tombolo_reader r;
        tombolo_header header;
        tombolo_record body;
        status = tombolo_port_receive(&client->port, taken == 0 ? timeout_ns : 0, &r, &header, &body);
        if (status != TOMBOLO_OK) {
            return taken != 0 && status == TOMBOLO_TIMED_OUT ? TOMBOLO_OK : status;
        }
        tombolo_client_take(client, &header, &r, body);
    }
    return status;
}

/* Sends a call and waits for its answer: TOMBOLO_OK with results to read, TOMBOLO_DECLINED with a declared error to read (only if
 * `declines`), or another status. TOMBOLO_TIMED_OUT: the call was cancelled at the server, but may have been served. */
static inline tombolo_status tombolo_client_call(tombolo_client *client, const tombolo_writer *w, uint16_t ordinal,
                                                 bool declines, uint64_t timeout_ns, tombolo_reader *r,
                                                 tombolo_record *body)
{
    const uint64_t deadline_ns = tombolo_deadline(timeout_ns);
    const uint32_t call = client->call;
    tombolo_counts *counts = &client->port.counts;
    tombolo_status status = tombolo_port_send(&client->port, w, timeout_ns);
    if (status != TOMBOLO_OK) {
        return status;
    }
    counts->calls++;
    for (;;) {
        const uint64_t left_ns = tombolo_left_ns(deadline_ns);
        tombolo_header header;
        tombolo_writer cancel;
        status = tombolo_port_receive(&client->port, left_ns, r, &header, body);
        if (status == TOMBOLO_OK && tombolo_is_reading(r) && header.call == call && header.kind >= TOMBOLO_REPLY &&
            header.kind <= TOMBOLO_NOT_SERVED) {
            counts->answers++;
            if (header.ordinal != ordinal) {
                tombolo_get_fail(r, TOMBOLO_MALFORMED, 0, "an answer to another call");
                return tombolo_client_read(client, r, TOMBOLO_OK);
            }
            if (header.kind == TOMBOLO_NOT_SERVED) {
                return tombolo_fault_status((uint32_t)tombolo_get(r, *body, body->start));
            }
            if (header.kind == TOMBOLO_ERROR && !declines) {
                tombolo_get_fail(r, TOMBOLO_MALFORMED, 0, "an error where the interface declares none");
                return tombolo_client_read(client, r, TOMBOLO_OK);
            }
            if (header.kind == TOMBOLO_ERROR) {
                return tombolo_explain(TOMBOLO_DECLINED, "the server declined the call: the call's `error` has the reason");
            }
            return TOMBOLO_OK;
        }
        if (status == TOMBOLO_OK) {
            tombolo_client_take(client, &header, r, *body);
        } else if (status != TOMBOLO_TIMED_OUT) {
            return status;
        }
        /* The deadline applies even while a peer floods this end with messages. */
        if (status == TOMBOLO_TIMED_OUT || left_ns == 0) {
            header.ordinal = ordinal;
            header.kind = TOMBOLO_CANCEL;
            header.call = call;
            cancel = tombolo_write(client->port.sent, client->port.max_bytes, header, 0);
            (void)tombolo_port_send(&client->port, &cancel, 0);
            return tombolo_explain(TOMBOLO_TIMED_OUT, "no answer came in time; the call was cancelled and may have been served");
        }
    }
}

/* --- servers ------------------------------------------------------------------------------------------------------- */

/* A call that awaits an answer. */
typedef struct tombolo_pending {
    uint32_t call; /* 0 for none, and for calls whose answer is not awaited */
    uint16_t ordinal;
} tombolo_pending;

/* Serving end of a channel. */
typedef struct tombolo_server {
    tombolo_port port;
    uint32_t outstanding_count;
    tombolo_pending outstanding[TOMBOLO_MAX_OUTSTANDING];
} tombolo_server;

/* Returns the call's index among the outstanding calls, or their number if it is not one of them. */
static inline uint32_t tombolo_server_find(const tombolo_server *server, tombolo_pending pending)
{
    uint32_t index = 0;
    while (index < server->outstanding_count && (server->outstanding[index].call != pending.call ||
                                                 server->outstanding[index].ordinal != pending.ordinal)) {
        index++;
    }
    return index;
}

static inline bool tombolo_server_forget(tombolo_server *server, tombolo_pending pending)
{
    const uint32_t index = tombolo_server_find(server, pending);
    if (index == server->outstanding_count) {
        return false;
    }
    server->outstanding[index] = server->outstanding[--server->outstanding_count];
    return true;
}

/* Begins an answer or an event. */
static inline tombolo_writer tombolo_server_begin(tombolo_server *server, tombolo_pending pending, uint8_t kind,
                                                  uint32_t body_bytes)
{
    tombolo_header header;
    header.ordinal = pending.ordinal;
    header.kind = kind;
    header.call = pending.call;
    return tombolo_write(server->port.sent, server->port.max_bytes, header, body_bytes);
}

/* Answers a call with a fault instead of a result. */
static inline tombolo_status tombolo_server_fault(tombolo_server *server, tombolo_pending pending, uint32_t fault)
{
    tombolo_writer w = tombolo_server_begin(server, pending, TOMBOLO_NOT_SERVED, 8);
    tombolo_put(&w, TOMBOLO_HEADER_BYTES, fault, 4);
    if (fault == 1) {
        server->port.counts.unknown++;
    } else if (fault == 2) {
        server->port.counts.malformed++;
    } else if (fault == 6) {
        server->port.counts.refused++;
    }
    server->port.counts.answers++;
    return tombolo_port_send(&server->port, &w, TOMBOLO_ANSWER_TIMEOUT);
}

/* Returns the fault for the status of a handler that has no answer. */
static inline uint32_t tombolo_server_why(tombolo_status result)
{
    return result == TOMBOLO_RIGHT_REFUSED ? 6 : 3;
}

/* Sends a written answer, or a fault if it could not be written or is too long. */
static inline tombolo_status tombolo_server_answer(tombolo_server *server, tombolo_pending pending,
                                                   const tombolo_writer *w)
{
    const tombolo_status status = tombolo_port_send(&server->port, w, TOMBOLO_ANSWER_TIMEOUT);
    if (status == TOMBOLO_OVER_LIMIT || status == TOMBOLO_TOO_LONG) {
        return tombolo_server_fault(server, pending, 4);
    }
    server->port.counts.answers++;
    return status;
}

/* Records a call that is answered later. */
static inline tombolo_status tombolo_server_keep(tombolo_server *server, tombolo_pending pending)
{
    server->outstanding[server->outstanding_count++] = pending;
    return TOMBOLO_OK;
}

/* Receives the next message. On TOMBOLO_OK `*kind` is TOMBOLO_CALL or TOMBOLO_MESSAGE, or 0 if there is nothing to serve. */
static inline tombolo_status tombolo_server_receive(tombolo_server *server, uint64_t timeout_ns, uint8_t *kind,
                                                    tombolo_pending *pending, tombolo_reader *r, tombolo_record *body)
{
    tombolo_header header;
    const tombolo_status status = tombolo_port_receive(&server->port, timeout_ns, r, &header, body);
    *kind = 0;
    if (status != TOMBOLO_OK) {
        return status;
    }
    pending->ordinal = header.ordinal;
    pending->call = header.call;
    if (!tombolo_is_reading(r) || (header.kind >= TOMBOLO_REPLY && header.kind != TOMBOLO_CANCEL)) {
        server->port.counts.malformed++;
    } else if (header.kind == TOMBOLO_CANCEL) {
        (void)tombolo_server_forget(server, *pending);
    } else if (header.kind == TOMBOLO_MESSAGE) {
        *kind = TOMBOLO_MESSAGE;
    } else {
        server->port.counts.calls++;
        if (server->outstanding_count >= TOMBOLO_MAX_OUTSTANDING) {
            return tombolo_server_fault(server, *pending, 5);
        }
        *kind = TOMBOLO_CALL;
    }
    return TOMBOLO_OK;
}

/* Counts a one-way message as handled, unknown or malformed. */
static inline tombolo_status tombolo_server_took(tombolo_server *server, const tombolo_reader *r, bool known)
{
    if (!known) {
        server->port.counts.unknown++;
    } else if (!tombolo_is_reading(r)) {
        server->port.counts.malformed++;
    } else {
        server->port.counts.messages++;
    }
    return TOMBOLO_OK;
}

#ifdef __cplusplus
}
#endif

#endif
