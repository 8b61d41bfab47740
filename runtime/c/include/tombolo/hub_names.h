/*
 * Hubs under the names of OpenComRTOS (L1_...) and of Go's channels on the SCC (channel_...): inline functions over tombolo/hubs.h,
 * for programs that were written for one of them. The names are not Tombolo's own, so no other header includes this one.
 *
 * L1_..._NW does not wait, L1_..._W waits without limit, L1_..._WT waits for a time in nanoseconds. All return a tombolo_status.
 */
#ifndef TOMBOLO_HUB_NAMES_H
#define TOMBOLO_HUB_NAMES_H

#include <tombolo/hubs.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Go's channels: a port is an unbuffered channel, a fifo a buffered one. */

static inline tombolo_status channel_open(const tombolo_task *task, const char *name, const char *value_type, tombolo_hub **channel)
{
    return tombolo_hub_open(task, name, TOMBOLO_PORT | TOMBOLO_FIFO, value_type, TOMBOLO_FOREVER, channel);
}

static inline tombolo_status channel_send(const tombolo_hub *channel, const void *value, size_t length)
{
    return tombolo_hub_put(channel, value, length, TOMBOLO_FOREVER);
}

static inline tombolo_status channel_receive(const tombolo_hub *channel, void *buffer, size_t capacity, size_t *length)
{
    return tombolo_hub_get(channel, buffer, capacity, length, TOMBOLO_FOREVER);
}

static inline tombolo_status channel_close(const tombolo_hub *channel)
{
    return tombolo_hub_close(channel);
}

static inline void channel_free(tombolo_hub *channel)
{
    tombolo_hub_drop(channel);
}

/* Returns how many values the channel can hold; 0 if it is unbuffered. */
static inline tombolo_status channel_capacity(const tombolo_hub *channel, uint32_t *capacity)
{
    tombolo_hub_info info;
    tombolo_status status = tombolo_hub_get_info(channel, &info);
    if (status == TOMBOLO_OK)
        *capacity = info.capacity;
    return status;
}

/* Returns how many values the channel holds; a hint, as others use it concurrently. */
static inline tombolo_status channel_buffered(const tombolo_hub *channel, uint32_t *depth)
{
    tombolo_hub_info info;
    tombolo_status status = tombolo_hub_get_info(channel, &info);
    if (status == TOMBOLO_OK)
        *depth = info.depth;
    return status;
}

/* OpenComRTOS's services. Each comes as _NW, _W and _WT. */

#define TOMBOLO_L1_SERVICE(name, parameters, ...)                                                                                     \
    static inline tombolo_status name##_NW parameters { const uint64_t timeout_ns = 0; return __VA_ARGS__; }                          \
    static inline tombolo_status name##_W parameters { const uint64_t timeout_ns = TOMBOLO_FOREVER; return __VA_ARGS__; }
#define TOMBOLO_L1_ARGUMENTS(...) (__VA_ARGS__)
#define TOMBOLO_L1_WT(name, parameters, ...)                                                                                          \
    static inline tombolo_status name##_WT parameters { return __VA_ARGS__; }

/* Ports and fifos. */
TOMBOLO_L1_SERVICE(L1_PutPacketToPort, TOMBOLO_L1_ARGUMENTS(const tombolo_hub *port, const void *value, size_t length),
                   tombolo_hub_put(port, value, length, timeout_ns))
TOMBOLO_L1_WT(L1_PutPacketToPort,
              TOMBOLO_L1_ARGUMENTS(const tombolo_hub *port, const void *value, size_t length, uint64_t timeout_ns),
              tombolo_hub_put(port, value, length, timeout_ns))
TOMBOLO_L1_SERVICE(L1_GetPacketFromPort,
                   TOMBOLO_L1_ARGUMENTS(const tombolo_hub *port, void *buffer, size_t capacity, size_t *length),
                   tombolo_hub_get(port, buffer, capacity, length, timeout_ns))
TOMBOLO_L1_WT(L1_GetPacketFromPort,
              TOMBOLO_L1_ARGUMENTS(const tombolo_hub *port, void *buffer, size_t capacity, size_t *length, uint64_t timeout_ns),
              tombolo_hub_get(port, buffer, capacity, length, timeout_ns))
TOMBOLO_L1_SERVICE(L1_EnqueueFifo, TOMBOLO_L1_ARGUMENTS(const tombolo_hub *fifo, const void *value, size_t length),
                   tombolo_hub_put(fifo, value, length, timeout_ns))
TOMBOLO_L1_WT(L1_EnqueueFifo, TOMBOLO_L1_ARGUMENTS(const tombolo_hub *fifo, const void *value, size_t length, uint64_t timeout_ns),
              tombolo_hub_put(fifo, value, length, timeout_ns))
TOMBOLO_L1_SERVICE(L1_DequeueFifo, TOMBOLO_L1_ARGUMENTS(const tombolo_hub *fifo, void *buffer, size_t capacity, size_t *length),
                   tombolo_hub_get(fifo, buffer, capacity, length, timeout_ns))
TOMBOLO_L1_WT(L1_DequeueFifo,
              TOMBOLO_L1_ARGUMENTS(const tombolo_hub *fifo, void *buffer, size_t capacity, size_t *length, uint64_t timeout_ns),
              tombolo_hub_get(fifo, buffer, capacity, length, timeout_ns))

/* Events and semaphores. */
TOMBOLO_L1_SERVICE(L1_RaiseEvent, TOMBOLO_L1_ARGUMENTS(const tombolo_hub *event), tombolo_hub_put(event, NULL, 0, timeout_ns))
TOMBOLO_L1_WT(L1_RaiseEvent, TOMBOLO_L1_ARGUMENTS(const tombolo_hub *event, uint64_t timeout_ns),
              tombolo_hub_put(event, NULL, 0, timeout_ns))
TOMBOLO_L1_SERVICE(L1_TestEvent, TOMBOLO_L1_ARGUMENTS(const tombolo_hub *event), tombolo_hub_get(event, NULL, 0, NULL, timeout_ns))
TOMBOLO_L1_WT(L1_TestEvent, TOMBOLO_L1_ARGUMENTS(const tombolo_hub *event, uint64_t timeout_ns),
              tombolo_hub_get(event, NULL, 0, NULL, timeout_ns))
TOMBOLO_L1_SERVICE(L1_SignalSemaphore, TOMBOLO_L1_ARGUMENTS(const tombolo_hub *semaphore),
                   tombolo_hub_put(semaphore, NULL, 0, timeout_ns))
TOMBOLO_L1_WT(L1_SignalSemaphore, TOMBOLO_L1_ARGUMENTS(const tombolo_hub *semaphore, uint64_t timeout_ns),
              tombolo_hub_put(semaphore, NULL, 0, timeout_ns))
TOMBOLO_L1_SERVICE(L1_TestSemaphore, TOMBOLO_L1_ARGUMENTS(const tombolo_hub *semaphore),
                   tombolo_hub_get(semaphore, NULL, 0, NULL, timeout_ns))
TOMBOLO_L1_WT(L1_TestSemaphore, TOMBOLO_L1_ARGUMENTS(const tombolo_hub *semaphore, uint64_t timeout_ns),
              tombolo_hub_get(semaphore, NULL, 0, NULL, timeout_ns))

/* Locks and blocks: `held` contains the token that releases them. */
TOMBOLO_L1_SERVICE(L1_LockResource, TOMBOLO_L1_ARGUMENTS(const tombolo_hub *resource, tombolo_held *held),
                   tombolo_hub_take(resource, timeout_ns, held))
TOMBOLO_L1_WT(L1_LockResource, TOMBOLO_L1_ARGUMENTS(const tombolo_hub *resource, tombolo_held *held, uint64_t timeout_ns),
              tombolo_hub_take(resource, timeout_ns, held))
TOMBOLO_L1_SERVICE(L1_AllocateMemoryBlock, TOMBOLO_L1_ARGUMENTS(const tombolo_hub *pool, tombolo_held *held),
                   tombolo_hub_take(pool, timeout_ns, held))
TOMBOLO_L1_WT(L1_AllocateMemoryBlock, TOMBOLO_L1_ARGUMENTS(const tombolo_hub *pool, tombolo_held *held, uint64_t timeout_ns),
              tombolo_hub_take(pool, timeout_ns, held))

static inline tombolo_status L1_UnlockResource(const tombolo_hub *resource, const tombolo_held *held)
{
    return tombolo_hub_give_back(resource, held->fencing_token);
}

static inline tombolo_status L1_DeallocateMemoryBlock(const tombolo_hub *pool, const tombolo_held *held)
{
    return tombolo_hub_give_back(pool, held->fencing_token);
}

#undef TOMBOLO_L1_SERVICE
#undef TOMBOLO_L1_ARGUMENTS
#undef TOMBOLO_L1_WT

#ifdef __cplusplus
}
#endif

#endif
