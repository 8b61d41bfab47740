/*
 * Hubs: ports, fifos, events, semaphores, resources and pools that programs on all nodes share and find by name.
 *
 *                  put             get or take           closed by tombolo_hub_close
 *     port, fifo   send            receive               yes      a port is Go's unbuffered channel, a fifo its buffered one
 *     event        raise           await and clear       yes
 *     semaphore    signal          wait                  yes
 *     resource     -               lock (take)           no       tombolo_hub_give_back unlocks
 *     pool         -               allocate (take)       no       tombolo_hub_give_back frees
 *
 * Every operation has a timeout, as OpenComRTOS's _NW, _W and _WT: 0 does not wait (TOMBOLO_WOULD_BLOCK), others do. Waiters are
 * served by priority, then in order of arrival. TOMBOLO_PEER_DIED: the hub's node died, or the server of its hubs.
 *
 * A tombolo_task is the user of hubs: create one per thread. Any thread may use a tombolo_hub, one at a time. Locks and blocks that a
 * task holds are released when it ends.
 */
#ifndef TOMBOLO_HUBS_H
#define TOMBOLO_HUBS_H

#include <tombolo.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tombolo_task tombolo_task;
typedef struct tombolo_hub tombolo_hub;

/* Kinds of hubs, as a bit mask for tombolo_hub_open. */
#define TOMBOLO_PORT UINT32_C(1)
#define TOMBOLO_FIFO UINT32_C(2)
#define TOMBOLO_EVENT UINT32_C(4)
#define TOMBOLO_SEMAPHORE UINT32_C(8)
#define TOMBOLO_RESOURCE UINT32_C(16)
#define TOMBOLO_POOL UINT32_C(32)

typedef struct tombolo_hub_info {
    uint32_t kind;        /* one of the above */
    uint32_t capacity;    /* maximum number of values, units or blocks; 0 for a port */
    uint32_t value_bytes; /* maximum size of a value, or size of a block */
    uint32_t depth;       /* current number; a hint, as others use the hub concurrently */
} tombolo_hub_info;

/* A lock or a block that a task holds. */
typedef struct tombolo_held {
    uint64_t fencing_token; /* larger than that of every earlier holder */
    uint32_t number;        /* of the block, from 0 */
    bool was_abandoned;     /* the previous owner died while it owned the resource */
} tombolo_held;

/* Attaches a task. Its priority is `priority` if that is 0 to 255; with -1 the one in the application file, or else 100. End it with
 * tombolo_task_end, after its hubs are dropped. */
tombolo_status tombolo_task_attach(const tombolo_domain *domain, int32_t priority, tombolo_task **task);
void tombolo_task_end(tombolo_task *task);

/* Returns the highest priority waiting for a resource that the task owns; 0 for none. */
tombolo_status tombolo_task_inherited_priority(const tombolo_task *task, uint8_t *priority);

/* Opens a hub of one of the given kinds, waiting for its name. `value_type` must match `value` in the application file; "" matches
 * any. TOMBOLO_HUB_REFUSED: it is of another kind or type. Release it with tombolo_hub_drop. */
tombolo_status tombolo_hub_open(const tombolo_task *task, const char *name, uint32_t kinds, const char *value_type,
                                uint64_t timeout_ns, tombolo_hub **hub);
void tombolo_hub_drop(tombolo_hub *hub);

tombolo_status tombolo_hub_get_info(const tombolo_hub *hub, tombolo_hub_info *info);

/* Sends, raises or signals. TOMBOLO_HUB_CLOSED: the hub accepts nothing any more. */
tombolo_status tombolo_hub_put(const tombolo_hub *hub, const void *value, size_t length, uint64_t timeout_ns);

/* Receives, awaits or waits. `*length` is the value's length, also on TOMBOLO_BUFFER_TOO_SHORT: the next get returns the value then.
 * `length` may be null for hubs without values. TOMBOLO_HUB_CLOSED: the hub is closed and empty. */
tombolo_status tombolo_hub_get(const tombolo_hub *hub, void *buffer, size_t capacity, size_t *length, uint64_t timeout_ns);

/* Locks or allocates. TOMBOLO_HUB_HELD: the task owns the resource already. */
tombolo_status tombolo_hub_take(const tombolo_hub *hub, uint64_t timeout_ns, tombolo_held *held);

/* Unlocks or frees. TOMBOLO_HUB_HELD: the task does not hold it. */
tombolo_status tombolo_hub_give_back(const tombolo_hub *hub, uint64_t fencing_token);

/* Closes a port, fifo, event or semaphore. TOMBOLO_HUB_CLOSED: it was closed already. */
tombolo_status tombolo_hub_close(const tombolo_hub *hub);

/* Returns the memory of a pool, valid until the hub is dropped. Block `n` starts at `n` times value_bytes. Null if the task and the
 * pool are on different kernels. */
tombolo_status tombolo_hub_memory(const tombolo_hub *hub, void **memory);

/* One operation of a select. */
typedef struct tombolo_select_arm {
    const tombolo_hub *hub;
    bool puts;         /* puts `value` of `length` bytes; otherwise gets or takes */
    const void *value;
    void *buffer;      /* destination of a value, of `capacity` bytes */
    size_t capacity;
    size_t length;     /* length of the value put or received */
    tombolo_held held; /* lock or block that was taken */
} tombolo_select_arm;

/* Waits for the first of several operations, on hubs of any nodes, and performs exactly one; `*index` is its index in `arms`.
 * TOMBOLO_TIMED_OUT: none was ready. TOMBOLO_BUFFER_TOO_SHORT: it was performed, and the next get of that hub returns the value. */
tombolo_status tombolo_select(const tombolo_task *task, tombolo_select_arm *arms, size_t count, uint64_t timeout_ns, size_t *index);

#ifdef __cplusplus
}
#endif

#endif
