/*
 * Tombolo for C: message passing between programs on unlike processors.
 *
 * C11, or C++11. Link with -ltombolo (`pkg-config --cflags --libs tombolo`).
 *
 * Handles are opaque. What makes one says which function gives it back; afterwards it must not be used. Unless it is said
 * otherwise, pointers must not be null (TOMBOLO_INVALID_ARGUMENT if they are), texts are UTF-8 and end with a zero byte, and
 * what is passed in is read before the function returns and not kept.
 *
 * Functions return TOMBOLO_OK or a status above 0, and then have done nothing; tombolo_last_error() says what happened to
 * whom and what can be done. What is written through pointers is written only with TOMBOLO_OK, unless it is said otherwise.
 *
 * Timeouts are in nanoseconds. 0 does not wait: what is not ready is TOMBOLO_WOULD_BLOCK on channels, else TOMBOLO_TIMED_OUT.
 *
 * Threads: domains, listeners, children, capabilities and mappings may be used by several at once. A channel is used by one at a
 * time, whichever; TOMBOLO_BUSY tells a second one. No function calls another one's callback from another thread.
 *
 * Sending and receiving messages allocate nothing, unless they fail. What boards have is listed in the book.
 */
#ifndef TOMBOLO_H
#define TOMBOLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a function came to. The numbers are fixed; new ones may be added. */
typedef int32_t tombolo_status;

enum {
    TOMBOLO_OK = 0,
    TOMBOLO_WOULD_BLOCK = 1,       /* no room, or nothing there, right now */
    TOMBOLO_TIMED_OUT = 2,         /* the deadline passed */
    TOMBOLO_CLOSED = 3,            /* the peer closed the channel; everything it sent before has been received */
    TOMBOLO_PEER_DIED = 4,         /* the peer died, or its node was lost; everything it sent before has been received */
    TOMBOLO_TOO_LONG = 5,          /* the message is longer than the channel carries */
    TOMBOLO_REFUSED = 6,           /* the two sides of a channel do not fit */
    TOMBOLO_VIOLATION = 7,         /* the peer broke the protocol; its channel is of no use any more */
    TOMBOLO_NO_SUCH_NAME = 8,      /* there is no such name, or no program took it up in time */
    TOMBOLO_NAME_TAKEN = 9,        /* another program has it already */
    TOMBOLO_BAD_NAME = 10,         /* it is no name */
    TOMBOLO_NO_SUCH_NODE = 11,     /* no node of that name in the machine */
    TOMBOLO_NODE_DOWN = 12,        /* the node is not running */
    TOMBOLO_NO_SUCH_DOMAIN = 13,   /* no live domain with that id */
    TOMBOLO_BAD_IMAGE = 14,        /* the image cannot be read, or has no build for the node */
    TOMBOLO_START_FAILED = 15,     /* the program did not start */
    TOMBOLO_NO_LINK = 16,          /* the two nodes cannot reach each other */
    TOMBOLO_LIMIT = 17,            /* a limit of the machine was met */
    TOMBOLO_DENIED = 18,           /* the monitor declined */
    TOMBOLO_MONITOR_LOST = 19,     /* the monitor is gone, and the machine with it */
    TOMBOLO_NO_MACHINE = 20,       /* there is no machine to attach to */
    TOMBOLO_MONITOR_PROTOCOL = 21, /* the monitor said something that cannot be */
    TOMBOLO_BAD_TEXT = 22,         /* a record or query as it was written cannot be understood */
    TOMBOLO_SYSTEM = 23,           /* the operating system refused something */
    TOMBOLO_INVALID_ARGUMENT = 24, /* an argument is null, no UTF-8 or out of range */
    TOMBOLO_BUFFER_TOO_SHORT = 25, /* the caller's buffer is too short; nothing is lost */
    TOMBOLO_BUSY = 26,             /* the handle is in use */
    TOMBOLO_INTERNAL = 27,         /* a defect of the library */

    /* Of regions, pools and buffers. */
    TOMBOLO_REVOKED = 28,            /* the right was taken back */
    TOMBOLO_OUT_OF_RANGE = 29,       /* the bytes do not lie in the memory, or not between pages where they have to */
    TOMBOLO_NO_SUCH_CAPABILITY = 30, /* it is gone, or another domain's */
    TOMBOLO_LACKS_RIGHT = 31,        /* the capability does not give the right */
    TOMBOLO_NOT_REACHABLE = 32,      /* this node cannot reach the bytes: they have to be copied */
    TOMBOLO_STILL_HELD = 33,         /* it was revoked, but some have not let go of the memory */
    TOMBOLO_SEALED = 34,             /* a seal is in the way, or something is in the way of a seal */
    TOMBOLO_NO_BUFFER = 35,          /* all buffers of the pool are in use */
    TOMBOLO_BUFFER_STATE = 36,       /* what the buffer is doing does not allow it */
    TOMBOLO_POOL_REFUSED = 37,       /* the pool is not on the channel, or was not taken there */
    TOMBOLO_CONTENT_LOST = 38,       /* buffers arrived without their content: this process can open no more files */

    /* Of typed interfaces; see tombolo/interface.h. */
    TOMBOLO_DECLINED = 40,         /* the server answered with the error that the interface declares */
    TOMBOLO_OVER_LIMIT = 41,       /* a value is longer than the interface allows, or has no form on the wire */
    TOMBOLO_MALFORMED = 42,        /* what the peer sent was refused */
    TOMBOLO_UNKNOWN_CALL = 43,     /* the server does not know the call: it may be older */
    TOMBOLO_REQUEST_REFUSED = 44,  /* the server refused the request as malformed */
    TOMBOLO_UNSERVED = 45,         /* the server does not serve the call */
    TOMBOLO_ANSWER_TOO_LONG = 46,  /* the answer is longer than the interface or the channel allows */
    TOMBOLO_SERVER_BUSY = 47,      /* too many calls of this client wait for their answers */
    TOMBOLO_FAULT = 48,            /* the server gave a reason that is unknown here */
    TOMBOLO_NO_MEMORY = 49,        /* the memory given to a client or server is too small */
    TOMBOLO_LATER = 50,            /* from a handler: it answers later */
    TOMBOLO_NOT_OUTSTANDING = 51,  /* the client does not wait for that answer any more */
    TOMBOLO_CANNOT_CARRY = 52,     /* the link cannot carry what the interface passes */
    TOMBOLO_NO_ROOM = 53,          /* there was no room for the message in time: nothing was sent */
    TOMBOLO_UNKNOWN_MESSAGE = 54,  /* a one-way message with an ordinal that this side does not know */
    TOMBOLO_RIGHT_REFUSED = 55,    /* a right or buffer that came with a message is not its receiver's to take */

    /* Of files; see tombolo/files.h. */
    TOMBOLO_NOT_GRANTED = 56,  /* it was not granted to this program, or not for that */
    TOMBOLO_NO_SUCH_FILE = 57, /* there is nothing there */
    TOMBOLO_FILE_EXISTS = 58,  /* there is something already */
    TOMBOLO_IS_FOLDER = 59,  /* it is a folder */
    TOMBOLO_NOT_FOLDER = 60, /* it, or something on the way to it, is no folder */
    TOMBOLO_FILE_ENDED = 61,   /* the file ended before all was read */
    TOMBOLO_FILE_FAULT = 62,   /* it cannot be done to that file: tombolo_last_error() says why */
    TOMBOLO_NOT_IN_JOB = 63,   /* this program was not started as one of a job, or there is no such rank in it */
    TOMBOLO_RELAY_DIED = 64,   /* a relay between the two ends of a channel died; the peer may live */
    TOMBOLO_OPENING_REFUSED = 65, /* the listener refused the request with which a channel was to be opened */
    TOMBOLO_HUB_CLOSED = 66,    /* the hub (tombolo/hubs.h) is closed, and for one that gets it is empty; or it was closed before */
    TOMBOLO_HUB_HELD = 67,      /* the task does not hold it; or it does, and was to take it again */
    TOMBOLO_HUB_REFUSED = 68,   /* the hub is of another kind or type, or has no such operation */
    TOMBOLO_EXPELLED = 69,      /* the other members of a group (tombolo/group.h) took this one for dead */
    TOMBOLO_IN_USE = 70,        /* the bytes are those of a part that was split off, or are mapped */
    TOMBOLO_WRONG_KIND = 71,    /* the capability is to something of another kind */
    TOMBOLO_TASK_FAILED = 72,   /* a task (tombolo/tasks.h) ended with an error, whose text tombolo_last_error() has */
    TOMBOLO_TASK_LOST = 73,     /* its worker died; it may have run, and is not run again */
    TOMBOLO_TASK_REFUSED = 74,  /* it was not started, or its worker has no such function */
    TOMBOLO_TASK_CANCELLED = 75 /* it was cancelled; or the task of this thread was, and is to return */
};

/* As long as it takes: some 584 years. */
#define TOMBOLO_FOREVER UINT64_MAX
#define TOMBOLO_SECOND UINT64_C(1000000000)
#define TOMBOLO_MILLISECOND UINT64_C(1000000)
/* How long operations wait in other languages where nothing else is said. */
#define TOMBOLO_DEFAULT_TIMEOUT (30 * TOMBOLO_SECOND)

/* "TOMBOLO_PEER_DIED" and the like; never null. */
const char *tombolo_error_name(tombolo_status status);

/* What happened to whom when a function last failed in this thread, and what can be done. Never null; good until the next. */
const char *tombolo_last_error(void);

/* Makes `what` the text of this thread's last failure, and returns `status`: for stubs and libraries on top. */
tombolo_status tombolo_explain(tombolo_status status, const char *what);

/* Nanoseconds of a clock that never goes back. */
uint64_t tombolo_now_ns(void);

/* The library's version, such as "0.1.0". */
const char *tombolo_version(void);

/* --- domains ------------------------------------------------------------------------------------------------------- */

/* This program as a domain of a machine. */
typedef struct tombolo_domain tombolo_domain;

/* Attaches to the machine that started this program, or that TOMBOLO_MACHINE names, or to the only one that is up. On a plain
 * host with none it starts a monitor for this host alone. Give it back with tombolo_detach. */
tombolo_status tombolo_attach(tombolo_domain **domain);

/* Attaches to the machine of that name. */
tombolo_status tombolo_attach_to_machine(const char *name, tombolo_domain **domain);

/* Leaves the machine once listeners, channels and children are given back too. Null is allowed. */
void tombolo_detach(tombolo_domain *domain);

/* Its id; 0 for null. */
uint64_t tombolo_domain_id(const tombolo_domain *domain);

/* The name of its node, and of its machine; good as long as the domain. */
const char *tombolo_node_name(const tombolo_domain *domain);
const char *tombolo_machine_name(const tombolo_domain *domain);

/* Whether the machine started it. */
bool tombolo_was_spawned(const tombolo_domain *domain);

/* --- opening channels ---------------------------------------------------------------------------------------------- */

/* How a channel is opened. All zero is what is meant by null. */
typedef struct tombolo_options {
    uint32_t slot_bytes;     /* 32, 64 or 128; both sides must agree; 0 for 64 */
    uint32_t slots;          /* of each ring, a power of two from 2 to 65,536; the connecting side's choice; 0 for 64 */
    uint64_t interface_hash; /* both sides must agree; 0 for none */
    uint64_t spin_ns;        /* before sleeping; 0 for about the cost of a wake, 1 for not at all */
    uint32_t flags;          /* TOMBOLO_USED_FLAG or 0 */
    uint32_t reserved;       /* 0 */
} tombolo_options;

#define TOMBOLO_USED_FLAG UINT32_C(1) /* return slots by a flag in the slot rather than by credit: for coherent memory only */

/* A name that this domain has taken up. */
typedef struct tombolo_listener tombolo_listener;

/* One end of a channel: whole messages, in order, both ways. */
typedef struct tombolo_channel tombolo_channel;

/* Takes up a name for others to connect to, machine-wide or ("@/NAME") of this node, until tombolo_unexport. Options may be null. */
tombolo_status tombolo_export(const tombolo_domain *domain, const char *name, const tombolo_options *options,
                              tombolo_listener **listener);
/* Null is allowed. */
void tombolo_unexport(tombolo_listener *listener);

/* Waits for a program to connect, and opens the channel. After TOMBOLO_REFUSED others can still be accepted. */
tombolo_status tombolo_accept(const tombolo_listener *listener, uint64_t timeout_ns, tombolo_channel **channel);

/* Opens a channel to the program that exports the name, waiting for one to do so and to accept. Options may be null. */
tombolo_status tombolo_connect(const tombolo_domain *domain, const char *name, const tombolo_options *options,
                               uint64_t timeout_ns, tombolo_channel **channel);

/* Closes this end: the peer receives everything sent before and then TOMBOLO_CLOSED. Null is allowed. With TOMBOLO_BUSY, from a
 * function that the channel is calling or while another thread uses it, it is still open. */
tombolo_status tombolo_close(tombolo_channel *channel);

/* --- jobs ---------------------------------------------------------------------------------------------------------- */

/* This program's place among those that one `tombolo run` started. */
typedef struct tombolo_job {
    uint32_t rank; /* from 0, in the order in which nodes were given to `tombolo run` */
    uint32_t size; /* how many were started */
} tombolo_job;

/* The job that this program was started in. TOMBOLO_NOT_IN_JOB when it was not started as one of a job. */
tombolo_status tombolo_get_job(const tombolo_domain *domain, tombolo_job *job);

/* Writes a name that is the job's own into a buffer, ended by a zero byte: to export and to connect to. With
 * TOMBOLO_BUFFER_TOO_SHORT nothing was written; 128 bytes do for a name of up to 64. */
tombolo_status tombolo_job_name(const tombolo_domain *domain, const char *name, char *buffer, size_t capacity);

/* Opens the channel between this program and the one of another rank, which does the same. There is one for each pair; more have
 * names. TOMBOLO_NOT_IN_JOB when there is no such rank, or it is the own. */
tombolo_status tombolo_job_channel(const tombolo_domain *domain, uint32_t rank, uint64_t timeout_ns, tombolo_channel **channel);

/* --- messages ------------------------------------------------------------------------------------------------------ */

/* Sends a message, whole or not at all, waiting for room; null is allowed with length 0. Succeeds to a dead peer while there is room. */
tombolo_status tombolo_send(tombolo_channel *channel, const void *message, size_t length, uint64_t timeout_ns);

/* Receives the next message into a buffer. With TOMBOLO_BUFFER_TOO_SHORT its length is in `*length` and it waits for the next
 * call; tombolo_max_message_bytes() bytes do for any. */
tombolo_status tombolo_receive(tombolo_channel *channel, void *buffer, size_t capacity, size_t *length,
                               uint64_t timeout_ns);

/* A received message where it lies. A hostile peer may change its bytes between two reads: read once, check the copy. */
typedef struct tombolo_message tombolo_message;

/* Receives the next message where it lies: it is consumed when `read` returns. */
tombolo_status tombolo_receive_in_place(tombolo_channel *channel,
                                        void (*read)(const tombolo_message *message, void *context), void *context,
                                        uint64_t timeout_ns);

/* Its length, in bytes. */
size_t tombolo_message_length(const tombolo_message *message);

/* Copies a part of it. */
tombolo_status tombolo_message_read(const tombolo_message *message, size_t offset, void *target, size_t length);

/* Room for a message that is being sent. */
typedef struct tombolo_draft tombolo_draft;

/* Sends a message of `length` bytes that `write` writes where it will be sent from, if there is room: over shared memory that is
 * where the peer reads it. Never waits; without room `write` is not called. Bytes that it does not write have any value. */
tombolo_status tombolo_send_in_place(tombolo_channel *channel, size_t length,
                                     void (*write)(tombolo_draft *draft, void *context), void *context);

/* Writes a part of it, at any offset. */
tombolo_status tombolo_draft_write(tombolo_draft *draft, size_t offset, const void *source, size_t length);

/* Waits until one of several channels has something to receive or has ended, and puts its index into `*index`. Each call begins
 * to look at another channel than the one before, so that all are served in turn. TOMBOLO_TIMED_OUT when nothing happened. */
tombolo_status tombolo_wait(tombolo_channel *const *channels, size_t count, uint64_t timeout_ns, size_t *index);

/* Prepares to wait in an event loop. TOMBOLO_WOULD_BLOCK: nothing is there, and `*descriptor`, which was written, becomes readable
 * (poll, epoll) when something is. TOMBOLO_OK: there is something to receive now. The descriptor stays the channel's; call this
 * again before each time that it is waited for. */
tombolo_status tombolo_arm(tombolo_channel *channel, int *descriptor);

/* The longest message that it carries, in bytes. */
size_t tombolo_max_message_bytes(const tombolo_channel *channel);

/* Its id, the same on both sides, and the id of the domain at the other end. */
uint64_t tombolo_channel_id(const tombolo_channel *channel);
uint64_t tombolo_peer(const tombolo_channel *channel);

/* The name of the peer's node; good as long as the channel. */
const char *tombolo_peer_node(const tombolo_channel *channel);

/* What carries it: "shm", "window" or "socket". */
const char *tombolo_transport(const tombolo_channel *channel);

/* What has passed through this end. */
typedef struct tombolo_stats {
    uint64_t messages_sent;
    uint64_t bytes_sent;
    uint64_t messages_received;
    uint64_t bytes_received;
    uint64_t rings;  /* how often it rang a sleeping peer */
    uint64_t sleeps; /* how often it went to sleep */
} tombolo_stats;

tombolo_status tombolo_channel_stats(tombolo_channel *channel, tombolo_stats *stats);

/* --- names --------------------------------------------------------------------------------------------------------- */

/* The first record that a query matches ("sensor { unit: 'K' }"), as text, waiting for one; with timeout 0 only if there is one.
 * TOMBOLO_NO_SUCH_NAME if there is none. `*length` gets its length without the zero byte, also with TOMBOLO_BUFFER_TOO_SHORT, and
 * may be null. */
tombolo_status tombolo_look_up(const tombolo_domain *domain, const char *query, uint64_t timeout_ns, char *buffer,
                               size_t capacity, size_t *length);

/* Sets a record ("sensor { unit: 'K', value: 20 }"), which lives as long as this program. `version` may be null. */
tombolo_status tombolo_set_record(const tombolo_domain *domain, const char *record, uint64_t *version);
/* Deletes one. */
tombolo_status tombolo_delete_record(const tombolo_domain *domain, const char *name);

/* --- starting domains ---------------------------------------------------------------------------------------------- */

/* What to start. Lists end with a null pointer; pointers may be null but for what is said. */
typedef struct tombolo_spawn_options {
    const char *image;              /* an image file or an executable; null for the image of this program itself */
    const char *node;               /* "host" if null */
    const char *const *arguments;
    const char *const *environment; /* "NAME=VALUE" */
    const char *directory;          /* this program's if null */
} tombolo_spawn_options;

/* A domain that this one started. */
typedef struct tombolo_child tombolo_child;

enum {
    TOMBOLO_EXITED = 1,    /* number: its status */
    TOMBOLO_SIGNALLED = 2, /* number: the signal */
    TOMBOLO_NODE_LOST = 3, /* it went with its node */
    TOMBOLO_LEFT = 4       /* how is not known */
};

/* How a domain ended. */
typedef struct tombolo_exit {
    uint32_t how;
    uint32_t number;
} tombolo_exit;

/* Starts a domain, which is killed when this one ends. Forget it with tombolo_child_forget, which leaves it running. */
tombolo_status tombolo_spawn(const tombolo_domain *domain, const tombolo_spawn_options *options, tombolo_child **child);

/* Its id; 0 for null. */
uint64_t tombolo_child_id(const tombolo_child *child);

/* Waits until it ends. May be asked again. */
tombolo_status tombolo_child_wait(const tombolo_child *child, uint64_t timeout_ns, tombolo_exit *exit);

/* Asks it to end, and kills it two seconds later if it has not. */
tombolo_status tombolo_child_kill(const tombolo_child *child);

/* Null is allowed. */
void tombolo_child_forget(tombolo_child *child);

/* --- regions ------------------------------------------------------------------------------------------------------- */

/* A right to a part of a region, which is memory with an owner. Who makes a region holds a capability to all of it; others are
 * derived from that, and granted to other domains, who take them up by their id: it may travel in any message, and says nothing to
 * those who do not hold it. */
typedef struct tombolo_capability tombolo_capability;

enum {
    TOMBOLO_READ = 1,  /* to map it for reading, or have it copied from */
    TOMBOLO_WRITE = 2, /* to map it for writing, or have it copied to */
    TOMBOLO_GRANT = 4  /* to give others capabilities to it */
};

/* A part of a region, in bytes: it begins and ends between pages. */
typedef struct tombolo_extent {
    uint64_t offset;
    uint64_t length;
} tombolo_extent;

/* What a region is to be. */
typedef struct tombolo_region_options {
    uint64_t length;          /* in bytes; rounded up to pages */
    const char *node;         /* in whose memory; the own node if null. Only programs on its kernel reach that */
    uint64_t huge_page_bytes; /* length of its pages, which the kernel has reserved; 0 for ordinary ones. Not in a window */
    uint32_t flags;           /* TOMBOLO_IN_WINDOW, TOMBOLO_ON_NUMA_NODE, TOMBOLO_COHERENT */
    uint32_t numa_node;       /* with TOMBOLO_ON_NUMA_NODE. Not in a window */
    uint64_t alignment_bytes; /* what its offset in a window is a multiple of: a power of two; 0 for any page */
} tombolo_region_options;

/* In the window between the host and `node`: programs of both reach it. */
#define TOMBOLO_IN_WINDOW UINT32_C(1)
#define TOMBOLO_ON_NUMA_NODE UINT32_C(2)
/* Only where both sides of the window see each other's stores without flushing caches; refused elsewhere. */
#define TOMBOLO_COHERENT UINT32_C(4)

/* Makes a region, and puts the capability to all of it, with all rights, into `*capability`. The region is there for as long as
 * a program holds a capability to it or has it mapped. Give it back with tombolo_capability_drop. */
tombolo_status tombolo_create_region(const tombolo_domain *domain, const tombolo_region_options *options,
                                     tombolo_capability **capability);

/* Makes a region of the first `length` bytes of a file of the host, which stays the caller's: to be mapped for reading, and for
 * writing if it was opened for both. */
tombolo_status tombolo_region_of_file(const tombolo_domain *domain, int descriptor, uint64_t length,
                                      tombolo_capability **capability);

/* Registers memory that this program has already, and keeps there for as long as the region is. Others cannot map it: who is
 * granted a capability learns where it is (tombolo_show), to copy from or to it. */
tombolo_status tombolo_register_memory(const tombolo_domain *domain, const void *address, uint64_t length,
                                       tombolo_capability **capability);

/* Takes up a capability that this program was granted or given, by its id: once, for it is let go when that is dropped. */
tombolo_status tombolo_take_capability(const tombolo_domain *domain, uint64_t id, tombolo_capability **capability);
/* Lets it go, once the mappings by it are gone too. What was derived from it stays. Null is allowed. */
void tombolo_capability_drop(tombolo_capability *capability);

/* Its id; that of its region; its part of that; what may be done. All 0 for null. */
uint64_t tombolo_capability_id(const tombolo_capability *capability);
uint64_t tombolo_capability_region(const tombolo_capability *capability);
tombolo_extent tombolo_capability_extent(const tombolo_capability *capability);
uint32_t tombolo_capability_rights(const tombolo_capability *capability);

/* Derives another for this program, with those of the rights: to a part of this one's bytes, or to all if `extent` is null. */
tombolo_status tombolo_derive(const tombolo_capability *capability, const tombolo_extent *extent, uint32_t rights,
                              tombolo_capability **derived);

/* Derives another for `domain`, which takes it up by the id that is put into `*id`. This one must give TOMBOLO_GRANT. */
tombolo_status tombolo_grant(const tombolo_capability *capability, uint64_t domain, const tombolo_extent *extent,
                             uint32_t rights, uint64_t *id);

/* Hands it over: `domain` holds it from now on, by the same id. What is mapped of it is unmapped. Drop the handle all the same. */
tombolo_status tombolo_give(const tombolo_capability *capability, uint64_t domain);

/* It is not let go when the handle is dropped, but with this program; its id. */
uint64_t tombolo_keep(const tombolo_capability *capability);

/* A capability as its holder sees it. */
typedef struct tombolo_capability_info {
    uint64_t id;
    uint64_t region;
    uint64_t holder; /* a domain */
    uint64_t parent; /* what it was derived from; 0 if that is gone */
    tombolo_extent extent;
    uint32_t rights;
    uint32_t revoked; /* 1 while it is being revoked */
} tombolo_capability_info;

enum {
    TOMBOLO_IN_MEMORY = 0,
    TOMBOLO_IN_A_WINDOW = 1,
    TOMBOLO_IN_A_FILE = 2,
    TOMBOLO_FOREIGN = 3, /* in memory that a program had already */
    TOMBOLO_SERVICE = 4  /* nowhere: it is a service (tombolo/capabilities.h) */
};

enum {
    TOMBOLO_OPEN = 0,
    TOMBOLO_SOLE_WRITER = 1, /* no other program can map it for writing */
    TOMBOLO_FROZEN = 2       /* no program can write to it */
};

/* A region. */
typedef struct tombolo_region_info {
    uint64_t id;
    uint64_t length; /* in bytes */
    uint64_t maker;  /* a domain */
    uint32_t backing;
    uint32_t seal;
    uint32_t capabilities; /* how many there are */
    uint32_t mappings;     /* in how many places it is mapped */
} tombolo_region_info;

/* What a capability is to, as the machine has it now. */
typedef struct tombolo_shown {
    tombolo_capability_info capability;
    tombolo_region_info region;
    uint64_t foreign_address; /* where the bytes are, if they are in memory of a program on the host; else 0 */
    int32_t foreign_pid;
    uint32_t reserved;
} tombolo_shown;

tombolo_status tombolo_show(const tombolo_capability *capability, tombolo_shown *shown);

/* All capabilities that this program holds, and all regions of the machine. `*count` gets their number, also with
 * TOMBOLO_BUFFER_TOO_SHORT; `list` may be null if `capacity` is 0. */
tombolo_status tombolo_capabilities(const tombolo_domain *domain, tombolo_capability_info *list, size_t capacity,
                                    size_t *count);
tombolo_status tombolo_regions(const tombolo_domain *domain, tombolo_region_info *list, size_t capacity, size_t *count);

/* What a revocation came to. */
typedef struct tombolo_revoked {
    uint32_t removed;      /* capabilities that are gone */
    uint32_t killed;       /* domains that were killed because they did not let go in time */
    uint64_t first_killed; /* the first of them; 0 if there is none */
} tombolo_revoked;

/* Takes back everything that was derived from it, wherever it went, and with `itself` this one too, and waits until no program can reach
 * the memory by that any more. With TOMBOLO_STILL_HELD the rights are gone, but some have not let go; with TOMBOLO_TIMED_OUT the
 * revocation goes on. `revoked` may be null. */
tombolo_status tombolo_revoke(const tombolo_capability *capability, bool itself, uint64_t timeout_ns,
                              tombolo_revoked *revoked);

/* Keeps all programs from writing to the region, whatever rights they hold, this one included, by the kernel. Takes a capability to
 * all of it with TOMBOLO_WRITE. TOMBOLO_SEALED while it is mapped for writing, and for what is not in memory of a kernel. */
tombolo_status tombolo_freeze(const tombolo_capability *capability);

/* Keeps all programs from mapping the region for writing; a mapping that exists stays. TOMBOLO_SEALED if another has one. */
tombolo_status tombolo_seal_to_sole_writer(const tombolo_capability *capability);

/* A part of a region that is mapped. */
typedef struct tombolo_mapping tombolo_mapping;

/* How it is mapped. All zero is what is meant by null. */
typedef struct tombolo_map_options {
    void *address;     /* here and nowhere else, where nothing is mapped; anywhere if null. A multiple of the page size */
    uint32_t flags;    /* TOMBOLO_POPULATE or 0 */
    uint32_t reserved; /* 0 */
    size_t alignment;  /* at a multiple of this many bytes, a power of two; 0 for any page. Not with an address */
} tombolo_map_options;

/* All pages are there from the start, rather than when they are first used. */
#define TOMBOLO_POPULATE UINT32_C(1)

/* Maps its part of the region with TOMBOLO_READ, or with TOMBOLO_READ | TOMBOLO_WRITE. Options may be null. Give it back with
 * tombolo_unmap; it keeps the right to the memory, also when the capability's handle is dropped. */
tombolo_status tombolo_map(const tombolo_capability *capability, uint32_t rights, const tombolo_map_options *options,
                           tombolo_mapping **mapping);

/* Null is allowed. */
void tombolo_unmap(tombolo_mapping *mapping);

/* Where it is, until it is unmapped; null for null. Others may write there at any time: read once, check the copy, or use atomics.
 * When the right is taken back a thread of this library replaces the pages by zeros of this program alone: no access faults, and
 * none sees what others have there. */
void *tombolo_mapping_address(const tombolo_mapping *mapping);

/* How many bytes, and whether for writing. */
size_t tombolo_mapping_length(const tombolo_mapping *mapping);
bool tombolo_mapping_is_writable(const tombolo_mapping *mapping);

/* TOMBOLO_REVOKED if the right has been taken back. Else what was read before was the region's, what was written has arrived. */
tombolo_status tombolo_mapping_check(const tombolo_mapping *mapping);

/* Copies bytes out and in, and checks. What is written is stored in whole words of 8 bytes with what is around them there. */
tombolo_status tombolo_mapping_read(const tombolo_mapping *mapping, size_t offset, void *target, size_t length);
tombolo_status tombolo_mapping_write(const tombolo_mapping *mapping, size_t offset, const void *source, size_t length);

/* --- rights as parameters of interfaces ----------------------------------------------------------------------------- */

/* A right as it travels: what `mark` says is its kind, with 0x100 if it is given away. The functions below make them; a field of
 * a message takes only those that are of its kind. */
typedef struct tombolo_right {
    uint64_t object;
    uint64_t mark;
} tombolo_right;

enum {
    TOMBOLO_A_REGION = 2,    /* for parameters that are to be all of a region */
    TOMBOLO_A_CAPABILITY = 3 /* for any */
};

/* Derives a capability with those of the rights for the program at the other end of a channel, which takes it up from the message that
 * brings `*right`: a `copy` parameter. This one must give TOMBOLO_GRANT. */
tombolo_status tombolo_copy_to(const tombolo_capability *capability, tombolo_channel *channel, uint32_t rights, uint32_t kind,
                               tombolo_right *right);

/* Hands the capability over: a `move` parameter. Where this program has it mapped it is let go. The handle is still to be dropped. */
tombolo_status tombolo_move_to(const tombolo_capability *capability, tombolo_channel *channel, uint32_t kind,
                               tombolo_right *right);

/* Takes up a right to memory that came over a channel, once. TOMBOLO_RIGHT_REFUSED: the program there did not grant it to
 * this program, it was taken up before, is not all of a region where it has to be, or is gone. A handler that returns that
 * refuses the call. */
tombolo_status tombolo_accept_right(const tombolo_domain *domain, tombolo_channel *channel, tombolo_right right,
                                    tombolo_capability **capability);

/* Takes back what was copied or moved for a message that was not sent, or whose receiver has not taken it up. */
tombolo_status tombolo_take_back(const tombolo_domain *domain, tombolo_right right, tombolo_capability **capability);

/* Listens under a name that is drawn anew, and puts into `*endpoint` where: a `copy` parameter; for one that is given away add
 * 0x100 to its mark. Give the listener back with tombolo_unexport. Options may be null. */
tombolo_status tombolo_listen(const tombolo_domain *domain, const tombolo_options *options, tombolo_listener **listener,
                              tombolo_right *endpoint);

/* Opens a channel to the program that listens at an endpoint. */
tombolo_status tombolo_connect_to(const tombolo_domain *domain, tombolo_right endpoint, const tombolo_options *options,
                                  uint64_t timeout_ns, tombolo_channel **channel);

/* Says that an interface which passes these is used over a channel, as stubs do when they are bound. TOMBOLO_CANNOT_CARRY. */
tombolo_status tombolo_carry(tombolo_channel *channel, bool capabilities, bool buffers);

/* --- pools and buffers --------------------------------------------------------------------------------------------- */

/* A number of equal buffers. */
typedef struct tombolo_pool tombolo_pool;

/* What a program has of a buffer: the sole right to read and write it; or, when it is shared, a right to read.
 * One thread at a time uses it; TOMBOLO_BUSY tells a second one. */
typedef struct tombolo_buffer tombolo_buffer;

enum {
    TOMBOLO_TRUST_FULL = 0, /* who gets the pool maps it, and nothing is done to its memory from then on */
    TOMBOLO_TRUST_NONE = 1, /* each buffer is memory of its own, which the kernel keeps others from writing; within one kernel */
    TOMBOLO_TRUST_HALF = 2  /* each is memory of its own, which those map that were sent it, from then on; within one kernel */
};

/* How a pool is made. */
typedef struct tombolo_pool_options {
    uint64_t buffer_bytes; /* of each; a multiple of 64 */
    uint32_t count;
    uint32_t trust;
    const char *reachable_from; /* in memory that programs on this node reach too: a virtual machine's is its window; may be null */
} tombolo_pool_options;

/* Makes a pool. All its buffers are here. Give it back with tombolo_pool_drop; buffers keep what they need of it. */
tombolo_status tombolo_create_pool(const tombolo_domain *domain, const tombolo_pool_options *options, tombolo_pool **pool);
/* Null is allowed. */
void tombolo_pool_drop(tombolo_pool *pool);

/* Bytes of each buffer, and how many there are; 0 for null. */
uint64_t tombolo_pool_buffer_bytes(const tombolo_pool *pool);
uint32_t tombolo_pool_count(const tombolo_pool *pool);

/* Whether two handles are of one pool. */
bool tombolo_pool_same(const tombolo_pool *one, const tombolo_pool *other);

/* What the buffers are doing, as this program knows it: they add up to their number. */
typedef struct tombolo_pool_counts {
    uint32_t free;     /* here, and ready to be taken */
    uint32_t held;     /* here, and in the hands of the program */
    uint32_t lent;     /* here, and read-only, for other domains may read them */
    uint32_t borrowed; /* elsewhere, and may be read here */
    uint32_t away;     /* elsewhere */
    uint32_t revoked;  /* 1 if the domain that made the pool took it back: its buffers cannot be used any more */
} tombolo_pool_counts;

tombolo_status tombolo_pool_count_buffers(const tombolo_pool *pool, tombolo_pool_counts *counts);

/* Takes a buffer to fill: of those that are free here the one that became so last. TOMBOLO_NO_BUFFER when all are in use. Give it back
 * with tombolo_buffer_drop, unless it is moved or passed. */
tombolo_status tombolo_pool_take(const tombolo_pool *pool, tombolo_buffer **buffer);

/* Lets it go: one that was taken is free again; one that came over a channel goes back, and one that was shared is released, with the
 * next operation on that channel. Null is allowed. */
void tombolo_buffer_drop(tombolo_buffer *buffer);

/* Where its bytes are, to be read; null, with the reason in tombolo_last_error(), if they are not here. Good until it is sent or
 * dropped, and until tombolo_buffer_memory is first called. With trust others map the memory: bytes of what is shared may change. */
const void *tombolo_buffer_data(const tombolo_buffer *buffer);

/* Where its bytes are, to be read and written until it is sent, shared or dropped; null if it is shared. */
void *tombolo_buffer_memory(tombolo_buffer *buffer);

/* How many bytes are meant: all of one that was taken, what was sent of one that came. */
uint64_t tombolo_buffer_length(const tombolo_buffer *buffer);

/* Which buffer of the pool it is, from 0. */
uint32_t tombolo_buffer_number(const tombolo_buffer *buffer);

/* Means this part of it, in bytes from its beginning: what is read and written from now on, and sent. */
tombolo_status tombolo_buffer_set_part(tombolo_buffer *buffer, uint64_t offset, uint64_t length);

/* Copies bytes out and in, by the fastest loop of this processor. TOMBOLO_REVOKED if the pool was taken away. */
tombolo_status tombolo_buffer_read(const tombolo_buffer *buffer, uint64_t offset, void *target, size_t length);
tombolo_status tombolo_buffer_write(tombolo_buffer *buffer, uint64_t offset, const void *source, size_t length);

/* Whether it is only to be read, and how many others have not released it yet. */
bool tombolo_buffer_is_shared(const tombolo_buffer *buffer);
uint32_t tombolo_buffer_shares(const tombolo_buffer *buffer);

/* Makes one that this program shared writable again, when all others have released it; TOMBOLO_BUFFER_STATE while some have not. */
tombolo_status tombolo_buffer_reclaim(tombolo_buffer *buffer);

/* --- channels for bulk data ---------------------------------------------------------------------------------------- */

/* One end of a channel that rights to buffers go over; nothing of the buffers is copied. As a channel it is used by one thread at a
 * time. What arrives is put into handles, which are allocated; sending one buffer allocates nothing of its size. */
typedef struct tombolo_bulk tombolo_bulk;

/* How it is opened. All zero is what is meant by null. `trust` must be that of the other side; of the limits the lower holds. */
typedef struct tombolo_bulk_options {
    uint64_t max_pool_bytes; /* the largest pool to take from the peer; 0 for 4 GiB */
    uint64_t spin_ns;        /* before sleeping; 0 for about the cost of a wake, 1 for not at all */
    uint32_t trust;
    uint32_t flags;        /* TOMBOLO_ASK, TOMBOLO_NO_METADATA */
    uint32_t max_pools;    /* both sides' together, 1 to 32; 0 for 32 */
    uint32_t max_metadata; /* with a transfer, in bytes, up to 2,048; 0 for that */
    uint32_t slots;        /* of each ring, a power of two from 2 to 65,536; the connecting side's choice; 0 for 64 */
    uint32_t reserved;     /* 0 */
} tombolo_bulk_options;

/* Pools that the peer assigns are not taken by themselves, but told as TOMBOLO_POOL_OFFERED. */
#define TOMBOLO_ASK UINT32_C(1)
/* Transfers carry no metadata. */
#define TOMBOLO_NO_METADATA UINT32_C(2)

/* As tombolo_export, tombolo_accept and tombolo_connect, each for bulk listeners alone. Options may be null. */
tombolo_status tombolo_export_bulk(const tombolo_domain *domain, const char *name, const tombolo_bulk_options *options,
                                   tombolo_listener **listener);
tombolo_status tombolo_accept_bulk(const tombolo_listener *listener, uint64_t timeout_ns, tombolo_bulk **bulk);
tombolo_status tombolo_connect_bulk(const tombolo_domain *domain, const char *name, const tombolo_bulk_options *options,
                                    uint64_t timeout_ns, tombolo_bulk **bulk);

/* As tombolo_job_channel, for bulk data. */
tombolo_status tombolo_job_bulk(const tombolo_domain *domain, uint32_t rank, uint64_t timeout_ns, tombolo_bulk **bulk);

/* Closes this end; what the peer had of this side's pools comes back. Null is allowed. With TOMBOLO_BUSY it is still open. */
tombolo_status tombolo_bulk_close(tombolo_bulk *bulk);

/* Makes a pool in memory that both ends reach and assigns it. Give it back with tombolo_pool_drop. */
tombolo_status tombolo_bulk_create_pool(tombolo_bulk *bulk, uint64_t buffer_bytes, uint32_t count, uint64_t timeout_ns,
                                        tombolo_pool **pool);

/* Assigns a pool to the channel: the other side may get buffers of it from now on, and, unless it is `here_only`, assign it further.
 * TOMBOLO_POOL_REFUSED if it does not take it. After TOMBOLO_TIMED_OUT asking again waits on for the answer. */
tombolo_status tombolo_bulk_assign(tombolo_bulk *bulk, const tombolo_pool *pool, bool here_only, uint64_t timeout_ns);

/* Takes a pool off the channel. TOMBOLO_BUFFER_STATE while buffers of it are out over the channel, or here from it. */
tombolo_status tombolo_bulk_unassign(tombolo_bulk *bulk, const tombolo_pool *pool, uint64_t timeout_ns);

/* Moves buffers as one transfer: all or none. The other side gets the right to read and write, with the content. With TOMBOLO_OK the
 * handles are given back by this; else they are as they were. `metadata` may be null if it has no bytes. */
tombolo_status tombolo_bulk_move(tombolo_bulk *bulk, tombolo_buffer *const *buffers, size_t count, const void *metadata,
                                 size_t metadata_length, uint64_t timeout_ns);

/* Shares buffers as one transfer: the other side may read them until it releases them, and here they are read-only meanwhile. The
 * handles stay. One that is shared already is shared with this side too, alone. */
tombolo_status tombolo_bulk_share(tombolo_bulk *bulk, tombolo_buffer *const *buffers, size_t count, const void *metadata,
                                  size_t metadata_length, uint64_t timeout_ns);

/* Passes a buffer to the other side, to be filled there: its content is lost. With TOMBOLO_OK the handle is given back by this. */
tombolo_status tombolo_bulk_pass(tombolo_bulk *bulk, tombolo_buffer *buffer, const void *metadata, size_t metadata_length,
                                 uint64_t timeout_ns);

/* Releases a buffer that the other side shared, with a word; else drop it. With TOMBOLO_OK the handle is given back by this. */
tombolo_status tombolo_bulk_release(tombolo_bulk *bulk, tombolo_buffer *buffer, const void *metadata, size_t metadata_length,
                                    uint64_t timeout_ns);

enum {
    TOMBOLO_MOVED = 1,        /* it moved `count` buffers here */
    TOMBOLO_SHARED = 2,       /* it shared `count` buffers */
    TOMBOLO_PASSED = 3,       /* it passed `count` buffers back and said something with it */
    TOMBOLO_RELEASED = 4,     /* it released `count` buffers and said something with it */
    TOMBOLO_POOL_TAKEN = 5,   /* it assigned `pool`, which was taken */
    TOMBOLO_POOL_OFFERED = 6, /* it offers a pool: tombolo_bulk_take_pool or tombolo_bulk_decline_pool */
    TOMBOLO_POOL_GONE = 7     /* it took `pool` off the channel */
};

/* What the other side did. */
typedef struct tombolo_arrival {
    uint32_t kind;
    uint32_t count;
    const void *metadata; /* what it said with it; good until the channel is used next */
    size_t metadata_length;
    tombolo_buffer *buffer; /* the first of those that came; the caller's. tombolo_bulk_next_piece has the others */
    tombolo_pool *pool;     /* the caller's */
    uint64_t offered_bytes; /* of each buffer of a pool that is offered */
    uint32_t offered_count;
    uint32_t reserved;
} tombolo_arrival;

/* Receives what the other side does next. Buffers that it gives back without a word are just free again. After its end, which comes
 * after everything that it sent, what it had of this side's pools has come back. */
tombolo_status tombolo_bulk_receive(tombolo_bulk *bulk, uint64_t timeout_ns, tombolo_arrival *arrival);

/* The next piece of the transfer that was received last; null when there is none. Those that are not asked for are let go. */
tombolo_buffer *tombolo_bulk_next_piece(tombolo_bulk *bulk);

/* Answers the pool that was offered last. */
tombolo_status tombolo_bulk_take_pool(tombolo_bulk *bulk, uint64_t timeout_ns, tombolo_pool **pool);
tombolo_status tombolo_bulk_decline_pool(tombolo_bulk *bulk, uint64_t timeout_ns);

/* Gives back what was dropped here, and takes note of what the other side gave back. */
tombolo_status tombolo_bulk_settle(tombolo_bulk *bulk);

/* As tombolo_arm: with TOMBOLO_OK receive without waiting until that is TOMBOLO_WOULD_BLOCK. */
tombolo_status tombolo_bulk_arm(tombolo_bulk *bulk, int *descriptor);

/* As those of channels. */
uint64_t tombolo_bulk_id(const tombolo_bulk *bulk);
uint64_t tombolo_bulk_peer(const tombolo_bulk *bulk);
const char *tombolo_bulk_peer_node(const tombolo_bulk *bulk);
const char *tombolo_bulk_transport(const tombolo_bulk *bulk);

/* --- buffers as parameters of interfaces ---------------------------------------------------------------------------- */

/* The bulk channel beside a channel of typed messages. It may be used by several threads at once. */
typedef struct tombolo_transfers tombolo_transfers;

/* Opens it. Both ends do so before anything else is said on the channel; `pools` are assigned to it, and those of both ends are there
 * when this returns. Give it back with tombolo_transfers_drop, and after the buffers that came over it. */
tombolo_status tombolo_open_bulk(const tombolo_domain *domain, tombolo_channel *channel, const tombolo_bulk_options *options,
                                 const tombolo_pool *const *pools, size_t count, uint64_t timeout_ns,
                                 tombolo_transfers **transfers);
void tombolo_transfers_drop(tombolo_transfers *transfers);

/* Moves buffers to the other end as one transfer, all or none: a list of `move buffer`. Their handles are given back by that; `rights` has
 * room for `count`. */
tombolo_status tombolo_move_buffers(const tombolo_transfers *transfers, tombolo_buffer *const *buffers, size_t count,
                                    uint64_t timeout_ns, tombolo_right *rights);

/* Lends a buffer to the other end to read: a `copy buffer`. The handle is a right to read from then on. */
tombolo_status tombolo_lend_buffer(const tombolo_transfers *transfers, tombolo_buffer *buffer, uint64_t timeout_ns,
                                   tombolo_right *right);

/* Claims the buffer that a message names, once. TOMBOLO_RIGHT_REFUSED: there is none; from a handler that refuses the call. */
tombolo_status tombolo_claim(const tombolo_transfers *transfers, tombolo_right right, uint64_t timeout_ns,
                             tombolo_buffer **buffer);

/* Takes what has come, without waiting, and gives back what was dropped. */
tombolo_status tombolo_transfers_settle(const tombolo_transfers *transfers);

#ifdef __cplusplus
}
#endif

#endif
