/*
 * Hubs: ports, fifos, events, semaphores, resources and pools that programs on all nodes share, found by name.
 *
 *                  put             get or take           closed by tombolo_hub_close
 *     port, fifo   send            receive               yes      a port is Go's unbuffered channel, a fifo its buffered one
 *     event        raise           await and clear       yes
 *     semaphore    signal          wait                  yes
 *     resource     -               lock (take)           no       tombolo_hub_give_back unlocks
 *     pool         -               allocate (take)       no       tombolo_hub_give_back frees
 *
 * Every operation has a timeout, as OpenComRTOS's _NW, _W and _WT: 0 only tries (TOMBOLO_WOULD_BLOCK), others wait. Those that wait
 * are served by priority, then in order of arrival. TOMBOLO_PEER_DIED: the node of the hub died, or the server of its hubs.
 *
 * A tombolo_task is what uses hubs: give each thread its own. A tombolo_hub is used by one thread at a time, whichever. What a task
 * holds is given back when it ends.
 */
#ifndef TOMBOLO_HUBS_H
#define TOMBOLO_HUBS_H

#include <tombolo.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tombolo_task tombolo_task;
typedef struct tombolo_hub tombolo_hub;

/* Kinds of hubs, of which one or several are asked for. */
#define TOMBOLO_PORT UINT32_C(1)
#define TOMBOLO_FIFO UINT32_C(2)
#define TOMBOLO_EVENT UINT32_C(4)
#define TOMBOLO_SEMAPHORE UINT32_C(8)
#define TOMBOLO_RESOURCE UINT32_C(16)
#define TOMBOLO_POOL UINT32_C(32)

typedef struct tombolo_hub_info {
    uint32_t kind;        /* one of them */
    uint32_t capacity;    /* values, units or blocks that it holds at most; 0 for a port */
    uint32_t value_bytes; /* the longest value, or the size of a block */
    uint32_t depth;       /* how many it holds; a hint, for others use it meanwhile */
} tombolo_hub_info;

/* A lock or a block. */
typedef struct tombolo_held {
    uint64_t fencing_token; /* larger than that of every earlier holder */
    uint32_t number;        /* of the block, from 0 */
    bool was_abandoned;     /* the owner before died while it owned the resource */
} tombolo_held;

/* A task with the priority that the application file sets, or else 100; 0 to 255 set another, -1 does not. End it with
 * tombolo_task_end, after its hubs were dropped. */
tombolo_status tombolo_task_attach(const tombolo_domain *domain, int32_t priority, tombolo_task **task);
void tombolo_task_end(tombolo_task *task);

/* The highest priority that waits for a resource which the task owns; 0 for none. */
tombolo_status tombolo_task_inherited_priority(const tombolo_task *task, uint8_t *priority);

/* Opens a hub of one of these kinds, waiting for its name. `value_type` is what the application file names as `value`; an empty one
 * fits all. TOMBOLO_HUB_REFUSED: it is of another kind or type. Drop it with tombolo_hub_drop. */
tombolo_status tombolo_hub_open(const tombolo_task *task, const char *name, uint32_t kinds, const char *value_type,
                                uint64_t timeout_ns, tombolo_hub **hub);
void tombolo_hub_drop(tombolo_hub *hub);

tombolo_status tombolo_hub_get_info(const tombolo_hub *hub, tombolo_hub_info *info);

/* Sends, raises or signals. TOMBOLO_HUB_CLOSED: nothing is put in any more. */
tombolo_status tombolo_hub_put(const tombolo_hub *hub, const void *value, size_t length, uint64_t timeout_ns);

/* Receives, awaits or waits. `length` is that of the value, also with TOMBOLO_BUFFER_TOO_SHORT: then the next get has it. It may be null
 * where no value comes. TOMBOLO_HUB_CLOSED: the hub is closed and empty. */
tombolo_status tombolo_hub_get(const tombolo_hub *hub, void *buffer, size_t capacity, size_t *length, uint64_t timeout_ns);

/* Locks or allocates. TOMBOLO_HUB_HELD: the task owns the resource already. */
tombolo_status tombolo_hub_take(const tombolo_hub *hub, uint64_t timeout_ns, tombolo_held *held);

/* Unlocks or frees. TOMBOLO_HUB_HELD: the task does not hold it. */
tombolo_status tombolo_hub_give_back(const tombolo_hub *hub, uint64_t fencing_token);

/* Closes a port, fifo, event or semaphore. TOMBOLO_HUB_CLOSED the second time. */
tombolo_status tombolo_hub_close(const tombolo_hub *hub);

/* The memory of a pool, until the hub is dropped: block `n` is at `n` times its value_bytes. Null where the kernel of the task is not
 * that of the pool. */
tombolo_status tombolo_hub_memory(const tombolo_hub *hub, void **memory);

/* One operation of a select. */
typedef struct tombolo_select_arm {
    const tombolo_hub *hub;
    bool puts;         /* puts `value` of `length` bytes; else gets, or takes */
    const void *value;
    void *buffer;      /* where a value that was got goes, of `capacity` bytes */
    size_t capacity;
    size_t length;     /* and how long it is */
    tombolo_held held; /* what was taken */
} tombolo_select_arm;

/* Waits for the first of several operations, on hubs of any nodes, and does exactly one: its index in `arms`. TOMBOLO_TIMED_OUT: none was
 * ready. TOMBOLO_BUFFER_TOO_SHORT: it was done, and the next get of that hub has the value. */
tombolo_status tombolo_select(const tombolo_task *task, tombolo_select_arm *arms, size_t count, uint64_t timeout_ns, size_t *index);

#ifdef __cplusplus
}
#endif

#endif
