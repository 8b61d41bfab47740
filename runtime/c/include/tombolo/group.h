/*
 * Groups: sets of domains on any nodes in which each broadcasts to all others. Members join and leave while the others go on; when one
 * dies, all that live on get the same of its messages.
 *
 *     tombolo_group *group;
 *     tombolo_group_join(domain, "sensors", NULL, TOMBOLO_DEFAULT_TIMEOUT, &group);
 *     tombolo_group_broadcast(group, "ready", 5, TOMBOLO_DEFAULT_TIMEOUT);
 *     tombolo_group_event event;
 *     tombolo_group_recv(group, &event, buffer, sizeof buffer, TOMBOLO_DEFAULT_TIMEOUT);
 *
 * A member takes part while it calls: every call that may wait also receives and forwards what is for others. A program that computes
 * for long calls tombolo_group_recv with a timeout of 0 meanwhile, or has a thread for its group.
 *
 * A tombolo_group is used by one thread at a time, whichever. A timeout of 0 only tries: TOMBOLO_WOULD_BLOCK. Every call may return
 * TOMBOLO_EXPELLED: the other members took this one for dead, as its channel to one of them broke. It may join again.
 */
#ifndef TOMBOLO_GROUP_H
#define TOMBOLO_GROUP_H

#include <tombolo.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tombolo_group tombolo_group;

/* All members take all messages in one order, their own included. */
#define TOMBOLO_TOTAL_ORDER UINT32_C(1)

/* How a group works. All zero is what is meant by null. All members choose the same, but for the last two: a program with other options
 * is refused when it joins (TOMBOLO_REFUSED). */
typedef struct tombolo_group_options {
    uint16_t fan_out;           /* the most members that one forwards a chunk to, 1 to 255; 0 for 4 */
    uint16_t buffers;           /* chunks that a member forwards at a time, 1 to 256; 0 for 4 */
    uint32_t chunk_bytes;       /* the longest part of a message that travels as one, 1 to 1,048,576; 0 for 4096 */
    uint32_t window_chunks;     /* chunks of one source that not all members have taken, 1 to 65,536; 0 for 32 */
    uint32_t max_message_bytes; /* the longest message, 1 to 2^30; 0 for 1 MiB */
    uint32_t flags;             /* TOMBOLO_TOTAL_ORDER or 0 */
    uint32_t reserved;          /* 0 */
    uint64_t inbox_bytes;       /* messages held for this program, beyond which sources wait for it; 0 for 16 MiB */
    uint64_t spin_ns;           /* before sleeping; 0 for about the cost of a wake, 1 for not at all */
} tombolo_group_options;

/* Joins a group, or founds it, if the machine has no group of this name; made of letters, digits and ._-/: */
tombolo_status tombolo_group_join(const tombolo_domain *domain, const char *name, const tombolo_group_options *options,
                                  uint64_t timeout_ns, tombolo_group **group);

/* The group of all domains of a job, each of which calls this. Members have the numbers of their ranks; no others can join.
 * TOMBOLO_NOT_IN_JOB: this program was not started as one of a job. */
tombolo_status tombolo_group_of_job(const tombolo_domain *domain, const tombolo_group_options *options, uint64_t timeout_ns,
                                    tombolo_group **group);

/* This member's number, higher than those of all that joined before; 0 for null, and for rank 0 of a job. */
uint64_t tombolo_group_id(const tombolo_group *group);

/* Another member. */
typedef struct tombolo_group_peer {
    uint64_t member;
    uint64_t domain; /* its id */
    char node[64];   /* the name of its node, cut off if it is longer */
} tombolo_group_peer;

/* The other members that there are channels to, up to `capacity`; `count` is how many there are. */
tombolo_status tombolo_group_peers(const tombolo_group *group, tombolo_group_peer *peers, size_t capacity, size_t *count);

/* Broadcasts a message to all other members, and with a total order to this one, too; waits for room. When it fails, nothing was sent.
 * TOMBOLO_TIMED_OUT: members did not take enough of the messages before it. TOMBOLO_TOO_LONG: longer than max_message_bytes. */
tombolo_status tombolo_group_broadcast(const tombolo_group *group, const void *message, size_t length, uint64_t timeout_ns);

/* What happens in a group. */
#define TOMBOLO_GROUP_JOINED UINT32_C(1)  /* comes before the member's first message, at first for each member, this one included */
#define TOMBOLO_GROUP_MESSAGE UINT32_C(2) /* the buffer has its bytes */
#define TOMBOLO_GROUP_LEFT UINT32_C(3)    /* comes after the last of its messages that any living member has */

typedef struct tombolo_group_event {
    uint64_t member; /* which joined, left, or broadcast the message */
    size_t length;   /* of the message; else 0 */
    uint32_t kind;   /* one of them */
    bool died;       /* it did not leave in order: it died, its node was lost, or its channel to a member broke */
} tombolo_group_event;

/* Waits for the next event. TOMBOLO_BUFFER_TOO_SHORT: `event` tells of a message that is longer than the buffer; the next call has it. */
tombolo_status tombolo_group_recv(const tombolo_group *group, tombolo_group_event *event, void *buffer, size_t capacity,
                                  uint64_t timeout_ns);

/* Waits until all members have taken everything that this one has broadcast. */
tombolo_status tombolo_group_flush(const tombolo_group *group, uint64_t timeout_ns);

/* Leaves: waits until all others have taken everything that this member broadcast, and gives the handle back, whatever it returns but
 * TOMBOLO_BUSY and TOMBOLO_INVALID_ARGUMENT. */
tombolo_status tombolo_group_leave(tombolo_group *group, uint64_t timeout_ns);

/* Leaves without waiting: what it broadcast just before may be lost. Null is allowed. */
void tombolo_group_drop(tombolo_group *group);

#ifdef __cplusplus
}
#endif

#endif
