/*
 * Groups: sets of domains on any nodes in which each broadcasts to all others. Members join and leave while the others continue. When a
 * member dies, all survivors receive the same set of its messages.
 *
 *     tombolo_group *group;
 *     tombolo_group_join(domain, "sensors", NULL, TOMBOLO_DEFAULT_TIMEOUT, &group);
 *     tombolo_group_broadcast(group, "ready", 5, TOMBOLO_DEFAULT_TIMEOUT);
 *     tombolo_group_event event;
 *     tombolo_group_recv(group, &event, buffer, sizeof buffer, TOMBOLO_DEFAULT_TIMEOUT);
 *
 * A member makes progress only inside calls: every call that may wait also receives and forwards messages for others. A program that
 * computes for long should call tombolo_group_recv with a timeout of 0 now and then, or run its group in a thread.
 *
 * Any thread may use a tombolo_group, one at a time. With a timeout of 0 calls do not wait: TOMBOLO_WOULD_BLOCK. Every call may return
 * TOMBOLO_EXPELLED: the other members consider this one dead, as its channel to one of them broke. It may join again.
 */
#ifndef TOMBOLO_GROUP_H
#define TOMBOLO_GROUP_H

#include <tombolo.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tombolo_group tombolo_group;

/* All members receive all messages in the same order, their own included. */
#define TOMBOLO_TOTAL_ORDER UINT32_C(1)

/* Options of a group. All zero means the same as null. All members must choose the same, except for the last two: a program with other
 * options is refused when it joins (TOMBOLO_REFUSED). */
typedef struct tombolo_group_options {
    uint16_t fan_out;           /* maximum number of members to which one member forwards a chunk, 1 to 255; 0 for 4 */
    uint16_t buffers;           /* chunks that a member forwards at a time, 1 to 256; 0 for 4 */
    uint32_t chunk_bytes;       /* size of the chunks that messages are sent in, 1 to 1,048,576; 0 for 4096 */
    uint32_t window_chunks;     /* maximum of a source's chunks that not all members have taken, 1 to 65,536; 0 for 32 */
    uint32_t max_message_bytes; /* the longest message, 1 to 2^30; 0 for 1 MiB */
    uint32_t flags;             /* TOMBOLO_TOTAL_ORDER or 0 */
    uint32_t reserved;          /* 0 */
    uint64_t inbox_bytes;       /* limit of messages queued for this program, beyond which sources wait for it; 0 for 16 MiB */
    uint64_t spin_ns;           /* before sleeping; 0 for about the cost of a wake, 1 for not at all */
} tombolo_group_options;

/* Joins a group, or creates it if the machine has none of this name. Names consist of letters, digits and ._-/: */
tombolo_status tombolo_group_join(const tombolo_domain *domain, const char *name, const tombolo_group_options *options,
                                  uint64_t timeout_ns, tombolo_group **group);

/* Joins the group of all domains of a job, each of which must call this. Member numbers are ranks; no other domains can join.
 * TOMBOLO_NOT_IN_JOB: this program was not started as part of a job. */
tombolo_status tombolo_group_of_job(const tombolo_domain *domain, const tombolo_group_options *options, uint64_t timeout_ns,
                                    tombolo_group **group);

/* Returns this member's number, higher than those of all that joined before; 0 for null, and for rank 0 of a job. */
uint64_t tombolo_group_id(const tombolo_group *group);

/* Another member. */
typedef struct tombolo_group_peer {
    uint64_t member;
    uint64_t domain; /* its id */
    char node[64];   /* the name of its node, truncated if it is longer */
} tombolo_group_peer;

/* Returns up to `capacity` of the members that this one has channels to; `*count` is their total number. */
tombolo_status tombolo_group_peers(const tombolo_group *group, tombolo_group_peer *peers, size_t capacity, size_t *count);

/* Broadcasts a message to all other members, and in total order to this one too; waits for room. If it fails, nothing was sent.
 * TOMBOLO_TIMED_OUT: members did not take enough of the earlier messages. TOMBOLO_TOO_LONG: longer than max_message_bytes. */
tombolo_status tombolo_group_broadcast(const tombolo_group *group, const void *message, size_t length, uint64_t timeout_ns);

/* Kinds of events in a group. */
#define TOMBOLO_GROUP_JOINED UINT32_C(1)  /* precedes the member's first message; initially one per member, this one included */
#define TOMBOLO_GROUP_MESSAGE UINT32_C(2) /* the buffer holds the message */
#define TOMBOLO_GROUP_LEFT UINT32_C(3)    /* follows the last of its messages that any living member has */

typedef struct tombolo_group_event {
    uint64_t member; /* member that joined, left, or broadcast the message */
    size_t length;   /* of the message; otherwise 0 */
    uint32_t kind;   /* one of the above */
    bool died;       /* it did not leave properly: it died, its node was lost, or its channel to a member broke */
} tombolo_group_event;

/* Waits for the next event. TOMBOLO_BUFFER_TOO_SHORT: `event` describes a message longer than the buffer; the next call returns it. */
tombolo_status tombolo_group_recv(const tombolo_group *group, tombolo_group_event *event, void *buffer, size_t capacity,
                                  uint64_t timeout_ns);

/* Waits until all members have taken everything that this one broadcast. */
tombolo_status tombolo_group_flush(const tombolo_group *group, uint64_t timeout_ns);

/* Leaves the group: waits until all others have taken everything that this member broadcast. Releases the handle, unless it returns
 * TOMBOLO_BUSY or TOMBOLO_INVALID_ARGUMENT. */
tombolo_status tombolo_group_leave(tombolo_group *group, uint64_t timeout_ns);

/* Leaves the group without waiting: recent broadcasts may be lost. Null is allowed. */
void tombolo_group_drop(tombolo_group *group);

#ifdef __cplusplus
}
#endif

#endif
