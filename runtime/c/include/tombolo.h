/*
 * Tombolo for C: message passing between programs on processors of different kinds.
 *
 * C11, or C++11. Link with -ltombolo (`pkg-config --cflags --libs tombolo`).
 *
 * Handles are opaque. The function that creates one names the function that releases it; a released handle must not be used. Unless
 * noted otherwise, pointers must not be null (TOMBOLO_INVALID_ARGUMENT), strings are UTF-8 and zero-terminated, and arguments are
 * read before the function returns and not retained.
 *
 * Functions return TOMBOLO_OK, or a status above 0 without having had any effect; tombolo_last_error() then describes the failure
 * and possible remedies. Output parameters are written only on TOMBOLO_OK, unless noted otherwise.
 *
 * Timeouts are in nanoseconds. 0 never waits: it returns TOMBOLO_WOULD_BLOCK on channels and TOMBOLO_TIMED_OUT elsewhere.
 *
 * Threads: domains, listeners, children, capabilities and mappings may be shared by threads. A channel may be used by any thread, but
 * by one at a time; a second one gets TOMBOLO_BUSY. Callbacks run only on the thread that called the function they were passed to.
 *
 * Sending and receiving messages allocate no memory unless they fail. The book lists which functions boards have.
 */
#ifndef TOMBOLO_H
#define TOMBOLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Result of a function. The numbers are stable; new ones may be added. */
typedef int32_t tombolo_status;

enum {
    TOMBOLO_OK = 0,
    TOMBOLO_WOULD_BLOCK = 1,       /* no room to send, or no message to receive, right now */
    TOMBOLO_TIMED_OUT = 2,         /* the deadline passed */
    TOMBOLO_CLOSED = 3,            /* the peer closed the channel; everything it sent before has been received */
    TOMBOLO_PEER_DIED = 4,         /* the peer died, or its node was lost; everything it sent before has been received */
    TOMBOLO_TOO_LONG = 5,          /* the message exceeds the channel's maximum */
    TOMBOLO_REFUSED = 6,           /* the options of the channel's two sides do not match */
    TOMBOLO_VIOLATION = 7,         /* the peer violated the protocol; the channel is unusable from now on */
    TOMBOLO_NO_SUCH_NAME = 8,      /* no such name, or no program exported it in time */
    TOMBOLO_NAME_TAKEN = 9,        /* another program owns the name */
    TOMBOLO_BAD_NAME = 10,         /* not a valid name */
    TOMBOLO_NO_SUCH_NODE = 11,     /* no node of that name in the machine */
    TOMBOLO_NODE_DOWN = 12,        /* the node is not running */
    TOMBOLO_NO_SUCH_DOMAIN = 13,   /* no live domain with that id */
    TOMBOLO_BAD_IMAGE = 14,        /* the image is unreadable, or has no build for the node */
    TOMBOLO_START_FAILED = 15,     /* the program did not start */
    TOMBOLO_NO_LINK = 16,          /* the two nodes cannot reach each other */
    TOMBOLO_LIMIT = 17,            /* a limit of the machine was reached */
    TOMBOLO_DENIED = 18,           /* the monitor refused the request */
    TOMBOLO_MONITOR_LOST = 19,     /* the monitor is gone, and the machine with it */
    TOMBOLO_NO_MACHINE = 20,       /* there is no machine to attach to */
    TOMBOLO_MONITOR_PROTOCOL = 21, /* the monitor sent an invalid message */
    TOMBOLO_BAD_TEXT = 22,         /* the text of a record or query cannot be parsed */
    TOMBOLO_SYSTEM = 23,           /* a call to the operating system failed */
    TOMBOLO_INVALID_ARGUMENT = 24, /* an argument is null, not UTF-8 or out of range */
    TOMBOLO_BUFFER_TOO_SHORT = 25, /* the caller's buffer is too short; nothing is lost */
    TOMBOLO_BUSY = 26,             /* the handle is in use */
    TOMBOLO_INTERNAL = 27,         /* a bug in the library */

    /* Regions, pools and buffers. */
    TOMBOLO_REVOKED = 28,            /* the right was revoked */
    TOMBOLO_OUT_OF_RANGE = 29,       /* the range is outside the memory, or not page-aligned where it must be */
    TOMBOLO_NO_SUCH_CAPABILITY = 30, /* it does not exist any more, or another domain holds it */
    TOMBOLO_LACKS_RIGHT = 31,        /* the capability does not include the right */
    TOMBOLO_NOT_REACHABLE = 32,      /* the memory cannot be mapped on this node: copy the bytes */
    TOMBOLO_STILL_HELD = 33,         /* revoked, but some programs still hold the memory */
    TOMBOLO_SEALED = 34,             /* a seal prevents the operation, or something prevents sealing */
    TOMBOLO_NO_BUFFER = 35,          /* all buffers of the pool are in use */
    TOMBOLO_BUFFER_STATE = 36,       /* not allowed in the buffer's current state */
    TOMBOLO_POOL_REFUSED = 37,       /* the pool is not assigned to the channel, or the peer did not take it */
    TOMBOLO_CONTENT_LOST = 38,       /* buffers arrived without content: this process is out of file descriptors */

    /* Typed interfaces; see tombolo/interface.h. */
    TOMBOLO_DECLINED = 40,         /* the server replied with the error that the interface declares: see the call's `error` */
    TOMBOLO_OVER_LIMIT = 41,       /* a value exceeds the interface's limit, or has no wire representation */
    TOMBOLO_MALFORMED = 42,        /* the peer sent a malformed message */
    TOMBOLO_UNKNOWN_CALL = 43,     /* the server does not know the call: it may be older */
    TOMBOLO_REQUEST_REFUSED = 44,  /* the server refused the request as malformed */
    TOMBOLO_UNSERVED = 45,         /* the server does not serve the call */
    TOMBOLO_ANSWER_TOO_LONG = 46,  /* the answer is longer than the interface or the channel allows */
    TOMBOLO_SERVER_BUSY = 47,      /* too many calls of this client are outstanding */
    TOMBOLO_FAULT = 48,            /* the server dropped the call, or gave a reason that this side does not know */
    TOMBOLO_NO_MEMORY = 49,        /* the memory supplied for a client or server is too small */
    TOMBOLO_LATER = 50,            /* returned by a handler that will answer later */
    TOMBOLO_NOT_OUTSTANDING = 51,  /* the client no longer waits for that answer */
    TOMBOLO_CANNOT_CARRY = 52,     /* the link cannot carry what the interface passes */
    TOMBOLO_NO_ROOM = 53,          /* no room for the message before the deadline: nothing was sent */
    TOMBOLO_UNKNOWN_MESSAGE = 54,  /* a one-way message with an ordinal that this side does not know */
    TOMBOLO_RIGHT_REFUSED = 55,    /* the receiver may not take a right or buffer that came with a message */

    /* Files; see tombolo/files.h. */
    TOMBOLO_NOT_GRANTED = 56,  /* not granted to this program, or not for this access */
    TOMBOLO_NO_SUCH_FILE = 57, /* no file or folder at that path */
    TOMBOLO_FILE_EXISTS = 58,  /* a file or folder exists at that path */
    TOMBOLO_IS_FOLDER = 59,  /* it is a folder */
    TOMBOLO_NOT_FOLDER = 60, /* it, or one of its parents, is not a folder */
    TOMBOLO_FILE_ENDED = 61,   /* the file ended before everything was read */
    TOMBOLO_FILE_FAULT = 62,   /* the operation failed on that file: tombolo_last_error() says why */
    TOMBOLO_NOT_IN_JOB = 63,   /* this program was not started as part of a job, or the job has no such rank */
    TOMBOLO_RELAY_DIED = 64,   /* a relay between the two ends of a channel died; the peer may be alive */
    TOMBOLO_OPENING_REFUSED = 65, /* the listener refused the opening request */
    TOMBOLO_HUB_CLOSED = 66,    /* the hub (tombolo/hubs.h) is closed, and for a get also empty; or it was closed already */
    TOMBOLO_HUB_HELD = 67,      /* the task does not hold the resource or block, or holds it already */
    TOMBOLO_HUB_REFUSED = 68,   /* the hub is of another kind or type, or has no such operation */
    TOMBOLO_EXPELLED = 69,      /* the other members of a group (tombolo/group.h) consider this one dead */
    TOMBOLO_IN_USE = 70,        /* the bytes belong to a part that was split off, or are mapped */
    TOMBOLO_WRONG_KIND = 71,    /* the capability refers to an object of another kind */
    TOMBOLO_TASK_FAILED = 72,   /* a task (tombolo/tasks.h) ended with an error; tombolo_last_error() has its text */
    TOMBOLO_TASK_LOST = 73,     /* its worker died; the task may have run, and is not retried */
    TOMBOLO_TASK_REFUSED = 74,  /* the task was not started, or its worker has no such function */
    TOMBOLO_TASK_CANCELLED = 75 /* the task was cancelled; or the calling task was, and must return */
};

/* No timeout: waits for up to 584 years. */
#define TOMBOLO_FOREVER UINT64_MAX
#define TOMBOLO_SECOND UINT64_C(1000000000)
#define TOMBOLO_MILLISECOND UINT64_C(1000000)
/* Default timeout of operations in the other languages. */
#define TOMBOLO_DEFAULT_TIMEOUT (30 * TOMBOLO_SECOND)

/* Returns the status's name, such as "TOMBOLO_PEER_DIED"; never null. */
const char *tombolo_error_name(tombolo_status status);

/* Describes this thread's last failure and possible remedies. Never null; valid until the thread's next failure. */
const char *tombolo_last_error(void);

/* Sets the text of this thread's last failure to `what` and returns `status`: for stubs and libraries built on this one. */
tombolo_status tombolo_explain(tombolo_status status, const char *what);

/* Returns the time of a monotonic clock, in nanoseconds. */
uint64_t tombolo_now_ns(void);

/* Returns the library's version, such as "0.1.0". */
const char *tombolo_version(void);

/* --- domains ------------------------------------------------------------------------------------------------------- */

/* This program as a domain of a machine. */
typedef struct tombolo_domain tombolo_domain;

/* Attaches to the machine that started this program, or that TOMBOLO_MACHINE names, or to the only one that is up. If no machine
 * is up, starts a monitor for this host alone. Release the domain with tombolo_detach. */
tombolo_status tombolo_attach(tombolo_domain **domain);

/* Attaches to the named machine. */
tombolo_status tombolo_attach_to_machine(const char *name, tombolo_domain **domain);

/* Releases the handle. The domain leaves the machine once its listeners, channels and children are released too. Null is allowed. */
void tombolo_detach(tombolo_domain *domain);

/* Returns the domain's id; 0 for null. */
uint64_t tombolo_domain_id(const tombolo_domain *domain);

/* Return the name of the domain's node, and of its machine; valid as long as the domain. */
const char *tombolo_node_name(const tombolo_domain *domain);
const char *tombolo_machine_name(const tombolo_domain *domain);

/* Returns whether the machine started this domain. */
bool tombolo_was_spawned(const tombolo_domain *domain);

/* --- opening channels ---------------------------------------------------------------------------------------------- */

/* Options for opening a channel. All zero means the same as null. */
typedef struct tombolo_options {
    uint32_t slot_bytes;     /* 32, 64 or 128; must match on both sides; 0 for 64 */
    uint32_t slots;          /* of each ring, a power of two from 2 to 65,536; the connecting side's choice; 0 for 64 */
    uint64_t interface_hash; /* must match on both sides; 0 for none */
    uint64_t spin_ns;        /* before sleeping; 0 for about the cost of a wake, 1 for not at all */
    uint32_t flags;          /* TOMBOLO_USED_FLAG or 0 */
    uint32_t reserved;       /* 0 */
} tombolo_options;

#define TOMBOLO_USED_FLAG UINT32_C(1) /* return slots by a flag in the slot instead of by credit: coherent memory only */

/* A name that this domain exports. */
typedef struct tombolo_listener tombolo_listener;

/* One end of a channel: whole messages, in order, both ways. */
typedef struct tombolo_channel tombolo_channel;

/* Exports a name that others can connect to, machine-wide or, as "@/NAME", on this node, until tombolo_unexport. Options may be null. */
tombolo_status tombolo_export(const tombolo_domain *domain, const char *name, const tombolo_options *options,
                              tombolo_listener **listener);
/* Null is allowed. */
void tombolo_unexport(tombolo_listener *listener);

/* Waits for a program to connect and opens the channel. After TOMBOLO_REFUSED the listener can still accept others. */
tombolo_status tombolo_accept(const tombolo_listener *listener, uint64_t timeout_ns, tombolo_channel **channel);

/* Opens a channel to the program that exports the name. Waits for the name to be exported and the peer to accept. Options may be null. */
tombolo_status tombolo_connect(const tombolo_domain *domain, const char *name, const tombolo_options *options,
                               uint64_t timeout_ns, tombolo_channel **channel);

/* Closes this end: the peer receives everything sent before and then TOMBOLO_CLOSED. Null is allowed. TOMBOLO_BUSY: the channel is
 * still open, as it is executing the calling callback or another thread is using it. */
tombolo_status tombolo_close(tombolo_channel *channel);

/* --- jobs ---------------------------------------------------------------------------------------------------------- */

/* This program's position among those that one `tombolo run` started. */
typedef struct tombolo_job {
    uint32_t rank; /* from 0, in the order in which nodes were given to `tombolo run` */
    uint32_t size; /* how many were started */
} tombolo_job;

/* Returns this program's position in its job. TOMBOLO_NOT_IN_JOB: it was not started as part of one. */
tombolo_status tombolo_get_job(const tombolo_domain *domain, tombolo_job *job);

/* Writes a name private to the job, zero-terminated, to export or to connect to. On TOMBOLO_BUFFER_TOO_SHORT nothing is
 * written; 128 bytes suffice for a `name` of up to 64. */
tombolo_status tombolo_job_name(const tombolo_domain *domain, const char *name, char *buffer, size_t capacity);

/* Opens the channel to the program of another rank, which must make the matching call. There is one per pair; use names for more.
 * TOMBOLO_NOT_IN_JOB: there is no such rank, or it is this program's own. */
tombolo_status tombolo_job_channel(const tombolo_domain *domain, uint32_t rank, uint64_t timeout_ns, tombolo_channel **channel);

/* --- messages ------------------------------------------------------------------------------------------------------ */

/* Sends a whole message, waiting for room; null is allowed with length 0. Sending to a dead peer succeeds while there is room. */
tombolo_status tombolo_send(tombolo_channel *channel, const void *message, size_t length, uint64_t timeout_ns);

/* Receives the next message into a buffer. On TOMBOLO_BUFFER_TOO_SHORT `*length` is its length and the message stays queued for
 * the next call. tombolo_max_message_bytes() bytes are enough for any message. */
tombolo_status tombolo_receive(tombolo_channel *channel, void *buffer, size_t capacity, size_t *length,
                               uint64_t timeout_ns);

/* A received message in place. A hostile peer may change its bytes between two reads: read once, validate the copy. */
typedef struct tombolo_message tombolo_message;

/* Receives the next message in place: passes it to `read`, and consumes it when `read` returns. */
tombolo_status tombolo_receive_in_place(tombolo_channel *channel,
                                        void (*read)(const tombolo_message *message, void *context), void *context,
                                        uint64_t timeout_ns);

/* Returns the message's length, in bytes. */
size_t tombolo_message_length(const tombolo_message *message);

/* Copies a part of the message to `target`. */
tombolo_status tombolo_message_read(const tombolo_message *message, size_t offset, void *target, size_t length);

/* Room for a message that is being sent. */
typedef struct tombolo_draft tombolo_draft;

/* Sends a message of `length` bytes that `write` builds in place: in shared memory, where the peer reads it. Never waits; if there
 * is no room, `write` is not called. Bytes that it does not write are unspecified. */
tombolo_status tombolo_send_in_place(tombolo_channel *channel, size_t length,
                                     void (*write)(tombolo_draft *draft, void *context), void *context);

/* Writes a part of the message, at any offset. */
tombolo_status tombolo_draft_write(tombolo_draft *draft, size_t offset, const void *source, size_t length);

/* Waits until one of several channels has something to receive or has ended, and stores its index in `*index`. Each call starts
 * its scan at a different channel, so that none starves. TOMBOLO_TIMED_OUT: none became ready. */
tombolo_status tombolo_wait(tombolo_channel *const *channels, size_t count, uint64_t timeout_ns, size_t *index);

/* Prepares to wait in an event loop. TOMBOLO_WOULD_BLOCK: nothing to receive; `*descriptor` was written and becomes readable (poll,
 * epoll) when there is. TOMBOLO_OK: there is something to receive now. The channel owns the descriptor; call this again before
 * each wait on it. */
tombolo_status tombolo_arm(tombolo_channel *channel, int *descriptor);

/* Returns the maximum length of a message on the channel, in bytes. */
size_t tombolo_max_message_bytes(const tombolo_channel *channel);

/* Return the channel's id, the same on both sides, and the peer's domain id. */
uint64_t tombolo_channel_id(const tombolo_channel *channel);
uint64_t tombolo_peer(const tombolo_channel *channel);

/* Returns the name of the peer's node; valid as long as the channel. */
const char *tombolo_peer_node(const tombolo_channel *channel);

/* Returns the channel's transport: "shm", "window" or "socket". */
const char *tombolo_transport(const tombolo_channel *channel);

/* Traffic counters of one end of a channel. */
typedef struct tombolo_stats {
    uint64_t messages_sent;
    uint64_t bytes_sent;
    uint64_t messages_received;
    uint64_t bytes_received;
    uint64_t rings;  /* doorbells rung to wake a sleeping peer */
    uint64_t sleeps; /* times that this end went to sleep */
} tombolo_stats;

tombolo_status tombolo_channel_stats(tombolo_channel *channel, tombolo_stats *stats);

/* --- names --------------------------------------------------------------------------------------------------------- */

/* Returns the first record that matches a query ("sensor { unit: 'K' }"), as text, waiting for one unless the timeout is 0.
 * TOMBOLO_NO_SUCH_NAME: none matches. `length` may be null; `*length` gets the length without the zero byte, also on
 * TOMBOLO_BUFFER_TOO_SHORT. */
tombolo_status tombolo_look_up(const tombolo_domain *domain, const char *query, uint64_t timeout_ns, char *buffer,
                               size_t capacity, size_t *length);

/* Sets a record ("sensor { unit: 'K', value: 20 }"), which is deleted when this program ends. `version` may be null. */
tombolo_status tombolo_set_record(const tombolo_domain *domain, const char *record, uint64_t *version);
/* Deletes a record. */
tombolo_status tombolo_delete_record(const tombolo_domain *domain, const char *name);

/* --- starting domains ---------------------------------------------------------------------------------------------- */

/* Program to start. Lists are null-terminated; every pointer may be null. */
typedef struct tombolo_spawn_options {
    const char *image;              /* an image file or an executable; null for the image of this program itself */
    const char *node;               /* "host" if null */
    const char *const *arguments;
    const char *const *environment; /* "NAME=VALUE" */
    const char *directory;          /* working directory; this program's if null */
} tombolo_spawn_options;

/* A domain that this one started. */
typedef struct tombolo_child tombolo_child;

enum {
    TOMBOLO_EXITED = 1,    /* `number` is its exit status */
    TOMBOLO_SIGNALLED = 2, /* `number` is the signal */
    TOMBOLO_NODE_LOST = 3, /* its node was lost */
    TOMBOLO_LEFT = 4       /* unknown how it ended */
};

/* How a domain ended. */
typedef struct tombolo_exit {
    uint32_t how;
    uint32_t number;
} tombolo_exit;

/* Starts a domain, which is killed when this one ends. Release it with tombolo_child_forget, which leaves it running. */
tombolo_status tombolo_spawn(const tombolo_domain *domain, const tombolo_spawn_options *options, tombolo_child **child);

/* Returns the child's domain id; 0 for null. */
uint64_t tombolo_child_id(const tombolo_child *child);

/* Waits until the child ends. May be called again. */
tombolo_status tombolo_child_wait(const tombolo_child *child, uint64_t timeout_ns, tombolo_exit *exit);

/* Asks the child to end, and kills it after two seconds if it has not. */
tombolo_status tombolo_child_kill(const tombolo_child *child);

/* Null is allowed. */
void tombolo_child_forget(tombolo_child *child);

/* --- regions ------------------------------------------------------------------------------------------------------- */

/* A right to a part of a region, which is memory with an owner. The creator of a region holds a capability to all of it; others are
 * derived from that and granted to other domains, which take them by id. The id may travel in any message: it is useless to domains
 * that do not hold the capability. */
typedef struct tombolo_capability tombolo_capability;

enum {
    TOMBOLO_READ = 1,  /* map it for reading, or copy from it */
    TOMBOLO_WRITE = 2, /* map it for writing, or copy to it */
    TOMBOLO_GRANT = 4  /* grant capabilities to it to others */
};

/* A part of a region, in bytes; page-aligned at both ends. */
typedef struct tombolo_extent {
    uint64_t offset;
    uint64_t length;
} tombolo_extent;

/* Options for creating a region. */
typedef struct tombolo_region_options {
    uint64_t length;          /* in bytes; rounded up to pages */
    const char *node;         /* whose memory to use; this node if null. Only programs on its kernel reach it */
    uint64_t huge_page_bytes; /* page size, of pages that the kernel has reserved; 0 for ordinary pages. Not in a window */
    uint32_t flags;           /* TOMBOLO_IN_WINDOW, TOMBOLO_ON_NUMA_NODE, TOMBOLO_COHERENT */
    uint32_t numa_node;       /* with TOMBOLO_ON_NUMA_NODE. Not in a window */
    uint64_t alignment_bytes; /* alignment of its offset in a window: a power of two; 0 for any page */
} tombolo_region_options;

/* In the window between the host and `node`, which programs on both can reach. */
#define TOMBOLO_IN_WINDOW UINT32_C(1)
#define TOMBOLO_ON_NUMA_NODE UINT32_C(2)
/* Requires a window whose two sides see each other's stores without cache flushes; refused elsewhere. */
#define TOMBOLO_COHERENT UINT32_C(4)

/* Creates a region and returns a capability to all of it, with all rights. The region lives as long as any program holds a
 * capability to it or has it mapped. Release the capability with tombolo_capability_drop. */
tombolo_status tombolo_create_region(const tombolo_domain *domain, const tombolo_region_options *options,
                                     tombolo_capability **capability);

/* Creates a region from the first `length` bytes of a file on the host. It can be mapped for reading, and for writing if the
 * descriptor was opened for both. The caller keeps the descriptor. */
tombolo_status tombolo_region_of_file(const tombolo_domain *domain, int descriptor, uint64_t length,
                                      tombolo_capability **capability);

/* Registers existing memory of this program, which must stay in place as long as the region lives. Others cannot map it: the holder
 * of a capability gets its address from tombolo_show, to copy from or to it. */
tombolo_status tombolo_register_memory(const tombolo_domain *domain, const void *address, uint64_t length,
                                       tombolo_capability **capability);

/* Takes a capability that this program was granted or given, by its id. Works once: dropping the handle releases the capability. */
tombolo_status tombolo_take_capability(const tombolo_domain *domain, uint64_t id, tombolo_capability **capability);
/* Releases the capability, as soon as its mappings are gone too. Capabilities derived from it remain. Null is allowed. */
void tombolo_capability_drop(tombolo_capability *capability);

/* Return the capability's id, its region's id, its part of the region and its rights. All 0 for null. */
uint64_t tombolo_capability_id(const tombolo_capability *capability);
uint64_t tombolo_capability_region(const tombolo_capability *capability);
tombolo_extent tombolo_capability_extent(const tombolo_capability *capability);
uint32_t tombolo_capability_rights(const tombolo_capability *capability);

/* Derives a capability for this program, with a subset of the rights, to a part of the bytes, or to all if `extent` is null. */
tombolo_status tombolo_derive(const tombolo_capability *capability, const tombolo_extent *extent, uint32_t rights,
                              tombolo_capability **derived);

/* Derives a capability for `domain`, which takes it by the id stored in `*id`. Requires TOMBOLO_GRANT. */
tombolo_status tombolo_grant(const tombolo_capability *capability, uint64_t domain, const tombolo_extent *extent,
                             uint32_t rights, uint64_t *id);

/* Transfers the capability to `domain`, under the same id, and unmaps its mappings here. The handle must still be dropped. */
tombolo_status tombolo_give(const tombolo_capability *capability, uint64_t domain);

/* Keeps the capability until this program ends, even if the handle is dropped. Returns its id. */
uint64_t tombolo_keep(const tombolo_capability *capability);

/* A capability as its holder sees it. */
typedef struct tombolo_capability_info {
    uint64_t id;
    uint64_t region;
    uint64_t holder; /* a domain */
    uint64_t parent; /* capability it was derived from; 0 if that is gone */
    tombolo_extent extent;
    uint32_t rights;
    uint32_t revoked; /* 1 while it is being revoked */
} tombolo_capability_info;

enum {
    TOMBOLO_IN_MEMORY = 0,
    TOMBOLO_IN_A_WINDOW = 1,
    TOMBOLO_IN_A_FILE = 2,
    TOMBOLO_FOREIGN = 3, /* in memory that a program registered */
    TOMBOLO_SERVICE = 4  /* no memory: it is a service (tombolo/capabilities.h) */
};

enum {
    TOMBOLO_OPEN = 0,
    TOMBOLO_SOLE_WRITER = 1, /* no other program can map it for writing */
    TOMBOLO_FROZEN = 2       /* no program can write to it */
};

/* A region as the machine describes it. */
typedef struct tombolo_region_info {
    uint64_t id;
    uint64_t length; /* in bytes */
    uint64_t maker;  /* a domain */
    uint32_t backing;
    uint32_t seal;
    uint32_t capabilities; /* number of capabilities to it */
    uint32_t mappings;     /* number of its mappings */
} tombolo_region_info;

/* Current state of a capability and its region. */
typedef struct tombolo_shown {
    tombolo_capability_info capability;
    tombolo_region_info region;
    uint64_t foreign_address; /* address of the bytes in the process `foreign_pid`, for registered memory; else 0 */
    int32_t foreign_pid;
    uint32_t reserved;
} tombolo_shown;

tombolo_status tombolo_show(const tombolo_capability *capability, tombolo_shown *shown);

/* List all capabilities that this program holds, and all regions of the machine. `*count` gets their number, also on
 * TOMBOLO_BUFFER_TOO_SHORT; `list` may be null if `capacity` is 0. */
tombolo_status tombolo_capabilities(const tombolo_domain *domain, tombolo_capability_info *list, size_t capacity,
                                    size_t *count);
tombolo_status tombolo_regions(const tombolo_domain *domain, tombolo_region_info *list, size_t capacity, size_t *count);

/* Result of a revocation. */
typedef struct tombolo_revoked {
    uint32_t removed;      /* capabilities removed */
    uint32_t killed;       /* domains killed because they did not release the memory in time */
    uint64_t first_killed; /* the first of them; 0 if there is none */
} tombolo_revoked;

/* Revokes all capabilities derived from this one, wherever they are, and with `itself` this one too. Waits until no program can reach
 * the memory through them. TOMBOLO_STILL_HELD: the rights are gone, but some programs have not released the memory. TOMBOLO_TIMED_OUT:
 * the revocation continues in the background. `revoked` may be null. */
tombolo_status tombolo_revoke(const tombolo_capability *capability, bool itself, uint64_t timeout_ns,
                              tombolo_revoked *revoked);

/* Has the kernel prevent all writes to the region, this program's included, regardless of rights. Requires a capability to all of it
 * with TOMBOLO_WRITE. TOMBOLO_SEALED while it is mapped for writing, and for regions that are not in a kernel's memory. */
tombolo_status tombolo_freeze(const tombolo_capability *capability);

/* Prevents new writable mappings of the region; this program's existing ones stay. TOMBOLO_SEALED if another program has one. */
tombolo_status tombolo_seal_to_sole_writer(const tombolo_capability *capability);

/* A part of a region, mapped into this program. */
typedef struct tombolo_mapping tombolo_mapping;

/* Options for mapping. All zero means the same as null. */
typedef struct tombolo_map_options {
    void *address;     /* exact address, page-aligned, where nothing is mapped yet; anywhere if null */
    uint32_t flags;    /* TOMBOLO_POPULATE or 0 */
    uint32_t reserved; /* 0 */
    size_t alignment;  /* alignment of the address, a power of two; 0 for any page. Not with an address */
} tombolo_map_options;

/* Populates all pages up front, instead of on first access. */
#define TOMBOLO_POPULATE UINT32_C(1)

/* Maps the capability's part of the region with TOMBOLO_READ, or with TOMBOLO_READ | TOMBOLO_WRITE. Options may be null. Release it
 * with tombolo_unmap. The mapping keeps the right to the memory alive, even after the capability's handle is dropped. */
tombolo_status tombolo_map(const tombolo_capability *capability, uint32_t rights, const tombolo_map_options *options,
                           tombolo_mapping **mapping);

/* Null is allowed. */
void tombolo_unmap(tombolo_mapping *mapping);

/* Returns the mapping's address, valid until it is unmapped; null for null. Others may write there at any time: read once and validate
 * the copy, or use atomics. When the right is revoked, a thread of this library replaces the pages by private zero pages: accesses do
 * not fault, and do not reach the shared memory. */
void *tombolo_mapping_address(const tombolo_mapping *mapping);

/* Return the mapping's length, in bytes, and whether it is writable. */
size_t tombolo_mapping_length(const tombolo_mapping *mapping);
bool tombolo_mapping_is_writable(const tombolo_mapping *mapping);

/* Returns TOMBOLO_REVOKED if the right was revoked. Otherwise all earlier reads and writes through the mapping reached the region. */
tombolo_status tombolo_mapping_check(const tombolo_mapping *mapping);

/* Copy bytes out and in, then check for revocation. Writes store whole 8-byte words, including neighbouring bytes at both ends. */
tombolo_status tombolo_mapping_read(const tombolo_mapping *mapping, size_t offset, void *target, size_t length);
tombolo_status tombolo_mapping_write(const tombolo_mapping *mapping, size_t offset, const void *source, size_t length);

/* --- rights as parameters of interfaces ----------------------------------------------------------------------------- */

/* A right in a message. `mark` is its kind, plus 0x100 if the right is given away. The functions below create them; a message field
 * accepts only rights of its own kind. */
typedef struct tombolo_right {
    uint64_t object;
    uint64_t mark;
} tombolo_right;

enum {
    TOMBOLO_A_REGION = 2,    /* for parameters that must be all of a region */
    TOMBOLO_A_CAPABILITY = 3 /* for any part */
};

/* Derives a capability with a subset of the rights for the channel's peer, which takes it from the message that carries `*right`: a
 * `copy` parameter. Requires TOMBOLO_GRANT. */
tombolo_status tombolo_copy_to(const tombolo_capability *capability, tombolo_channel *channel, uint32_t rights, uint32_t kind,
                               tombolo_right *right);

/* Transfers the capability to the peer: a `move` parameter. This program's mappings of it are unmapped. Still drop the handle. */
tombolo_status tombolo_move_to(const tombolo_capability *capability, tombolo_channel *channel, uint32_t kind,
                               tombolo_right *right);

/* Takes a right to memory that came over a channel, once. TOMBOLO_RIGHT_REFUSED: the peer did not grant it to this program, it was
 * taken before, it does not cover all of a region where it must, or it is gone. A handler that returns this status refuses the
 * call. */
tombolo_status tombolo_accept_right(const tombolo_domain *domain, tombolo_channel *channel, tombolo_right right,
                                    tombolo_capability **capability);

/* Takes back a right that was copied or moved for a message that was not sent, or whose receiver has not taken the right. */
tombolo_status tombolo_take_back(const tombolo_domain *domain, tombolo_right right, tombolo_capability **capability);

/* Listens without a name and returns the listener's address in `*endpoint`: a `copy` parameter; for a `move` parameter add 0x100 to
 * its mark. Release the listener with tombolo_unexport. Options may be null. */
tombolo_status tombolo_listen(const tombolo_domain *domain, const tombolo_options *options, tombolo_listener **listener,
                              tombolo_right *endpoint);

/* Opens a channel to the program that listens at an endpoint. */
tombolo_status tombolo_connect_to(const tombolo_domain *domain, tombolo_right endpoint, const tombolo_options *options,
                                  uint64_t timeout_ns, tombolo_channel **channel);

/* Declares that an interface passes these over a channel; stubs do so when bound. TOMBOLO_CANNOT_CARRY: the link cannot. */
tombolo_status tombolo_carry(tombolo_channel *channel, bool capabilities, bool buffers);

/* --- pools and buffers --------------------------------------------------------------------------------------------- */

/* Memory divided into buffers of equal size. */
typedef struct tombolo_pool tombolo_pool;

/* A program's right to a buffer: exclusive, to read and write; or, when it is shared, to read only.
 * One thread at a time may use it; a second one gets TOMBOLO_BUSY. */
typedef struct tombolo_buffer tombolo_buffer;

enum {
    TOMBOLO_TRUST_FULL = 0, /* every domain that gets the pool maps all of it, once and for all */
    TOMBOLO_TRUST_NONE = 1, /* each buffer is separate memory, and the kernel prevents writes by others; within one kernel */
    TOMBOLO_TRUST_HALF = 2  /* each buffer is separate memory, mapped for good by domains that were sent it; within one kernel */
};

/* Options for creating a pool. */
typedef struct tombolo_pool_options {
    uint64_t buffer_bytes; /* size of each buffer; a multiple of 64 */
    uint32_t count;
    uint32_t trust;
    const char *reachable_from; /* node that must reach the memory too: a virtual machine does by its window; may be null */
} tombolo_pool_options;

/* Creates a pool, with all its buffers here. Release it with tombolo_pool_drop; buffers keep the memory that they need alive. */
tombolo_status tombolo_create_pool(const tombolo_domain *domain, const tombolo_pool_options *options, tombolo_pool **pool);
/* Null is allowed. */
void tombolo_pool_drop(tombolo_pool *pool);

/* Return the size of each buffer, in bytes, and the number of buffers; 0 for null. */
uint64_t tombolo_pool_buffer_bytes(const tombolo_pool *pool);
uint32_t tombolo_pool_count(const tombolo_pool *pool);

/* Returns whether two handles refer to the same pool. */
bool tombolo_pool_same(const tombolo_pool *one, const tombolo_pool *other);

/* Number of buffers in each state, as this program knows it. The first five add up to the number of buffers. */
typedef struct tombolo_pool_counts {
    uint32_t free;     /* here and available */
    uint32_t held;     /* here, with a handle in this program */
    uint32_t lent;     /* here and read-only, as other domains may read them */
    uint32_t borrowed; /* elsewhere, but readable here */
    uint32_t away;     /* elsewhere */
    uint32_t revoked;  /* 1 if the pool's creator revoked it: its buffers are unusable */
} tombolo_pool_counts;

tombolo_status tombolo_pool_count_buffers(const tombolo_pool *pool, tombolo_pool_counts *counts);

/* Takes the most recently freed buffer, to fill it. TOMBOLO_NO_BUFFER: all are in use. Release it with tombolo_buffer_drop, unless it is
 * moved or passed. */
tombolo_status tombolo_pool_take(const tombolo_pool *pool, tombolo_buffer **buffer);

/* Releases the buffer. One that was taken is free again; one that came over a channel is returned (moved) or released (shared) with the
 * next operation on that channel. Null is allowed. */
void tombolo_buffer_drop(tombolo_buffer *buffer);

/* Returns the buffer's bytes for reading; null, with the reason in tombolo_last_error(), if they are not here. Valid until the buffer is
 * sent or dropped, or tombolo_buffer_memory is first called. With trust, others map the memory, and shared bytes may change. */
const void *tombolo_buffer_data(const tombolo_buffer *buffer);

/* Returns the buffer's bytes for reading and writing, until it is sent, shared or dropped; null if it is shared. */
void *tombolo_buffer_memory(tombolo_buffer *buffer);

/* Returns the length of the buffer's current part: all of a buffer that was taken, the part that was sent of one that arrived. */
uint64_t tombolo_buffer_length(const tombolo_buffer *buffer);

/* Returns the buffer's index in its pool. */
uint32_t tombolo_buffer_number(const tombolo_buffer *buffer);

/* Sets the part of the buffer, in bytes from its beginning, that is read, written and sent from now on. */
tombolo_status tombolo_buffer_set_part(tombolo_buffer *buffer, uint64_t offset, uint64_t length);

/* Copy bytes out and in, with the fastest copy loop of this processor. TOMBOLO_REVOKED if the pool was revoked. */
tombolo_status tombolo_buffer_read(const tombolo_buffer *buffer, uint64_t offset, void *target, size_t length);
tombolo_status tombolo_buffer_write(tombolo_buffer *buffer, uint64_t offset, const void *source, size_t length);

/* Return whether the buffer is read-only, and how many others have not released it yet. */
bool tombolo_buffer_is_shared(const tombolo_buffer *buffer);
uint32_t tombolo_buffer_shares(const tombolo_buffer *buffer);

/* Makes a buffer that this program shared writable again. TOMBOLO_BUFFER_STATE while others have not released it. */
tombolo_status tombolo_buffer_reclaim(tombolo_buffer *buffer);

/* --- channels for bulk data ---------------------------------------------------------------------------------------- */

/* One end of a channel that transfers rights to buffers without copying their contents. Like a channel, it may be used by one thread at
 * a time. Arriving buffers get newly allocated handles; sending a buffer allocates nothing of the buffer's size. */
typedef struct tombolo_bulk tombolo_bulk;

/* Options for opening a bulk channel. All zero means the same as null. `trust` must match the peer's; the lower of each limit applies. */
typedef struct tombolo_bulk_options {
    uint64_t max_pool_bytes; /* size of the largest pool to take from the peer; 0 for 4 GiB */
    uint64_t spin_ns;        /* before sleeping; 0 for about the cost of a wake, 1 for not at all */
    uint32_t trust;
    uint32_t flags;        /* TOMBOLO_ASK, TOMBOLO_NO_METADATA */
    uint32_t max_pools;    /* of both sides together, 1 to 32; 0 for 32 */
    uint32_t max_metadata; /* per transfer, in bytes, up to 2,048; 0 for 2,048 */
    uint32_t slots;        /* of each ring, a power of two from 2 to 65,536; the connecting side's choice; 0 for 64 */
    uint32_t reserved;     /* 0 */
} tombolo_bulk_options;

/* Reports pools that the peer assigns as TOMBOLO_POOL_OFFERED, instead of taking them automatically. */
#define TOMBOLO_ASK UINT32_C(1)
/* Transfers carry no metadata. */
#define TOMBOLO_NO_METADATA UINT32_C(2)

/* As tombolo_export, tombolo_accept and tombolo_connect, for bulk listeners only. Options may be null. */
tombolo_status tombolo_export_bulk(const tombolo_domain *domain, const char *name, const tombolo_bulk_options *options,
                                   tombolo_listener **listener);
tombolo_status tombolo_accept_bulk(const tombolo_listener *listener, uint64_t timeout_ns, tombolo_bulk **bulk);
tombolo_status tombolo_connect_bulk(const tombolo_domain *domain, const char *name, const tombolo_bulk_options *options,
                                    uint64_t timeout_ns, tombolo_bulk **bulk);

/* As tombolo_job_channel, for bulk data. */
tombolo_status tombolo_job_bulk(const tombolo_domain *domain, uint32_t rank, uint64_t timeout_ns, tombolo_bulk **bulk);

/* Closes this end. Buffers of this side's pools that the peer has come back. Null is allowed. On TOMBOLO_BUSY it stays open. */
tombolo_status tombolo_bulk_close(tombolo_bulk *bulk);

/* Creates a pool in memory that both ends reach, and assigns it. Release it with tombolo_pool_drop. */
tombolo_status tombolo_bulk_create_pool(tombolo_bulk *bulk, uint64_t buffer_bytes, uint32_t count, uint64_t timeout_ns,
                                        tombolo_pool **pool);

/* Assigns a pool to the channel: the peer may receive buffers of it from now on, and, unless it is `here_only`, assign it to other
 * channels. TOMBOLO_POOL_REFUSED: the peer declined it. After TOMBOLO_TIMED_OUT, call again to continue waiting for the answer. */
tombolo_status tombolo_bulk_assign(tombolo_bulk *bulk, const tombolo_pool *pool, bool here_only, uint64_t timeout_ns);

/* Removes a pool from the channel. TOMBOLO_BUFFER_STATE while either end has buffers of it that came over the channel. */
tombolo_status tombolo_bulk_unassign(tombolo_bulk *bulk, const tombolo_pool *pool, uint64_t timeout_ns);

/* Moves buffers as one transfer, all or none. The peer gets the right to read and write them, with their content. TOMBOLO_OK consumes
 * the handles; on failure they are unchanged. `metadata` may be null if it is empty. */
tombolo_status tombolo_bulk_move(tombolo_bulk *bulk, tombolo_buffer *const *buffers, size_t count, const void *metadata,
                                 size_t metadata_length, uint64_t timeout_ns);

/* Shares buffers as one transfer: the peer may read them until it releases them; here they are read-only until then, and their handles
 * stay valid. A buffer that is already shared can be shared with further peers, in a transfer of its own. */
tombolo_status tombolo_bulk_share(tombolo_bulk *bulk, tombolo_buffer *const *buffers, size_t count, const void *metadata,
                                  size_t metadata_length, uint64_t timeout_ns);

/* Passes a buffer to the peer, to be filled there: its content is lost. TOMBOLO_OK consumes the handle. */
tombolo_status tombolo_bulk_pass(tombolo_bulk *bulk, tombolo_buffer *buffer, const void *metadata, size_t metadata_length,
                                 uint64_t timeout_ns);

/* Releases a buffer that the peer shared, with metadata; without metadata, just drop it. TOMBOLO_OK consumes the handle. */
tombolo_status tombolo_bulk_release(tombolo_bulk *bulk, tombolo_buffer *buffer, const void *metadata, size_t metadata_length,
                                    uint64_t timeout_ns);

enum {
    TOMBOLO_MOVED = 1,        /* the peer moved `count` buffers here */
    TOMBOLO_SHARED = 2,       /* the peer shared `count` buffers */
    TOMBOLO_PASSED = 3,       /* the peer passed `count` buffers back, with metadata */
    TOMBOLO_RELEASED = 4,     /* the peer released `count` buffers, with metadata */
    TOMBOLO_POOL_TAKEN = 5,   /* the peer assigned `pool`, and it was taken */
    TOMBOLO_POOL_OFFERED = 6, /* the peer offers a pool: tombolo_bulk_take_pool or tombolo_bulk_decline_pool */
    TOMBOLO_POOL_GONE = 7     /* the peer removed `pool` from the channel */
};

/* An action of the peer on a bulk channel. */
typedef struct tombolo_arrival {
    uint32_t kind;
    uint32_t count;
    const void *metadata; /* valid until the next operation on the channel */
    size_t metadata_length;
    tombolo_buffer *buffer; /* first buffer that arrived, owned by the caller; tombolo_bulk_next_piece returns the others */
    tombolo_pool *pool;     /* owned by the caller */
    uint64_t offered_bytes; /* buffer size of an offered pool */
    uint32_t offered_count;
    uint32_t reserved;
} tombolo_arrival;

/* Receives the peer's next action. Buffers that it returns without metadata become free silently. The end of the channel is reported
 * after everything that the peer sent; all buffers of this side's pools are back then. */
tombolo_status tombolo_bulk_receive(tombolo_bulk *bulk, uint64_t timeout_ns, tombolo_arrival *arrival);

/* Returns the next buffer of the transfer received last; null after the last one. Buffers that are not fetched are released. */
tombolo_buffer *tombolo_bulk_next_piece(tombolo_bulk *bulk);

/* Take or decline the pool that was offered last. */
tombolo_status tombolo_bulk_take_pool(tombolo_bulk *bulk, uint64_t timeout_ns, tombolo_pool **pool);
tombolo_status tombolo_bulk_decline_pool(tombolo_bulk *bulk, uint64_t timeout_ns);

/* Returns the buffers that were dropped here to the peer, and processes those that the peer returned. */
tombolo_status tombolo_bulk_settle(tombolo_bulk *bulk);

/* As tombolo_arm. On TOMBOLO_OK, receive with timeout 0 until TOMBOLO_WOULD_BLOCK. */
tombolo_status tombolo_bulk_arm(tombolo_bulk *bulk, int *descriptor);

/* As the functions of channels. */
uint64_t tombolo_bulk_id(const tombolo_bulk *bulk);
uint64_t tombolo_bulk_peer(const tombolo_bulk *bulk);
const char *tombolo_bulk_peer_node(const tombolo_bulk *bulk);
const char *tombolo_bulk_transport(const tombolo_bulk *bulk);

/* --- buffers as parameters of interfaces ---------------------------------------------------------------------------- */

/* The bulk channel that accompanies a channel of typed messages. Threads may share it. */
typedef struct tombolo_transfers tombolo_transfers;

/* Opens the bulk channel. Both ends must call this before they send anything else on the channel. Assigns `pools`; the pools of both ends
 * are available when this returns. Release it with tombolo_transfers_drop, after the buffers that came over it. */
tombolo_status tombolo_open_bulk(const tombolo_domain *domain, tombolo_channel *channel, const tombolo_bulk_options *options,
                                 const tombolo_pool *const *pools, size_t count, uint64_t timeout_ns,
                                 tombolo_transfers **transfers);
void tombolo_transfers_drop(tombolo_transfers *transfers);

/* Moves buffers to the peer as one transfer, all or none: a list of `move buffer`. Consumes the handles on success; `rights` has room for
 * `count`. */
tombolo_status tombolo_move_buffers(const tombolo_transfers *transfers, tombolo_buffer *const *buffers, size_t count,
                                    uint64_t timeout_ns, tombolo_right *rights);

/* Lends a buffer to the peer to read: a `copy buffer`. The handle is read-only from then on. */
tombolo_status tombolo_lend_buffer(const tombolo_transfers *transfers, tombolo_buffer *buffer, uint64_t timeout_ns,
                                   tombolo_right *right);

/* Claims the buffer that a message names, once. TOMBOLO_RIGHT_REFUSED: there is none; a handler that returns it refuses the call. */
tombolo_status tombolo_claim(const tombolo_transfers *transfers, tombolo_right right, uint64_t timeout_ns,
                             tombolo_buffer **buffer);

/* Receives arrived transfers without waiting, and returns dropped buffers to the peer. */
tombolo_status tombolo_transfers_settle(const tombolo_transfers *transfers);

#ifdef __cplusplus
}
#endif

#endif
