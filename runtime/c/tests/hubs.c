/* Uses hubs of all kinds that tests/languages/c.rs serves: every ending, and a select. */

#include <stdio.h>
#include <string.h>

#include <tombolo/hub_names.h>

#define PATIENCE_NS UINT64_C(60000000000)

#define EXPECT(call, expected)                                                                             \
    do {                                                                                                   \
        tombolo_status status = (call);                                                                    \
        if (status != (expected)) {                                                                        \
            fprintf(stderr, "%s is %s: %s\n", #call, tombolo_error_name(status), tombolo_last_error());    \
            return 1;                                                                                      \
        }                                                                                                  \
    } while (0)

static int test_fifos(const tombolo_task *task)
{
    tombolo_hub *fifo;
    EXPECT(tombolo_hub_open(task, "c-fifo", TOMBOLO_PORT | TOMBOLO_FIFO, "u64", PATIENCE_NS, &fifo), TOMBOLO_OK);
    tombolo_hub_info info;
    EXPECT(tombolo_hub_get_info(fifo, &info), TOMBOLO_OK);
    if (info.kind != TOMBOLO_FIFO || info.capacity != 2 || info.depth != 0)
        return fprintf(stderr, "kind %u, capacity %u, depth %u\n", info.kind, info.capacity, info.depth);
    uint64_t value = 7;
    EXPECT(tombolo_hub_put(fifo, &value, sizeof value, PATIENCE_NS), TOMBOLO_OK);
    value = 8;
    EXPECT(channel_send(fifo, &value, sizeof value), TOMBOLO_OK);
    EXPECT(L1_EnqueueFifo_NW(fifo, &value, sizeof value), TOMBOLO_WOULD_BLOCK);
    EXPECT(L1_EnqueueFifo_WT(fifo, &value, sizeof value, TOMBOLO_MILLISECOND), TOMBOLO_TIMED_OUT);
    uint32_t capacity = 0, buffered = 0;
    EXPECT(channel_capacity(fifo, &capacity), TOMBOLO_OK);
    EXPECT(channel_buffered(fifo, &buffered), TOMBOLO_OK);
    if (capacity != 2 || buffered != 2)
        return fprintf(stderr, "%u of %u values\n", buffered, capacity);
    char tight[4];
    size_t length = 0;
    EXPECT(tombolo_hub_get(fifo, tight, sizeof tight, &length, PATIENCE_NS), TOMBOLO_BUFFER_TOO_SHORT);
    if (length != sizeof value)
        return fprintf(stderr, "a value of %zu bytes\n", length);
    EXPECT(tombolo_hub_get(fifo, &value, sizeof value, &length, 0), TOMBOLO_OK);
    if (value != 7)
        return fprintf(stderr, "the value that did not fit is %llu\n", (unsigned long long)value);
    EXPECT(tombolo_hub_close(fifo), TOMBOLO_OK);
    EXPECT(tombolo_hub_close(fifo), TOMBOLO_HUB_CLOSED);
    EXPECT(tombolo_hub_put(fifo, &value, sizeof value, PATIENCE_NS), TOMBOLO_HUB_CLOSED);
    EXPECT(tombolo_hub_get(fifo, &value, sizeof value, NULL, PATIENCE_NS), TOMBOLO_OK);
    EXPECT(channel_receive(fifo, &value, sizeof value, &length), TOMBOLO_HUB_CLOSED);
    tombolo_held held;
    EXPECT(tombolo_hub_take(fifo, 0, &held), TOMBOLO_HUB_REFUSED);
    tombolo_hub_drop(fifo);
    return 0;
}

static int test_locks_and_blocks(const tombolo_task *task)
{
    tombolo_hub *guard, *pool;
    EXPECT(tombolo_hub_open(task, "c-guard", TOMBOLO_RESOURCE, "", PATIENCE_NS, &guard), TOMBOLO_OK);
    tombolo_held first, again;
    EXPECT(L1_LockResource_W(guard, &first), TOMBOLO_OK);
    EXPECT(L1_LockResource_NW(guard, &again), TOMBOLO_HUB_HELD);
    uint8_t priority = 1;
    EXPECT(tombolo_task_inherited_priority(task, &priority), TOMBOLO_OK);
    EXPECT(L1_UnlockResource(guard, &first), TOMBOLO_OK);
    EXPECT(tombolo_hub_give_back(guard, first.fencing_token), TOMBOLO_HUB_HELD);
    EXPECT(tombolo_hub_take(guard, PATIENCE_NS, &again), TOMBOLO_OK);
    if (priority != 0 || again.fencing_token <= first.fencing_token || again.was_abandoned)
        return fprintf(stderr, "a token that does not grow, or an owner that did not die\n");
    EXPECT(tombolo_hub_get(guard, NULL, 0, NULL, 0), TOMBOLO_HUB_REFUSED);
    tombolo_hub_drop(guard);

    EXPECT(tombolo_hub_open(task, "c-pool", TOMBOLO_POOL, "", PATIENCE_NS, &pool), TOMBOLO_OK);
    tombolo_hub_info info;
    EXPECT(tombolo_hub_get_info(pool, &info), TOMBOLO_OK);
    void *memory;
    EXPECT(tombolo_hub_memory(pool, &memory), TOMBOLO_OK);
    EXPECT(tombolo_hub_take(pool, PATIENCE_NS, &first), TOMBOLO_OK);
    EXPECT(tombolo_hub_take(pool, PATIENCE_NS, &again), TOMBOLO_OK);
    memset((char *)memory + (size_t)again.number * info.value_bytes, 0x5a, info.value_bytes);
    EXPECT(tombolo_hub_take(pool, 0, &again), TOMBOLO_WOULD_BLOCK);
    EXPECT(tombolo_hub_give_back(pool, first.fencing_token), TOMBOLO_OK);
    tombolo_hub_drop(pool);
    return 0;
}

static int test_selects(const tombolo_task *task)
{
    tombolo_hub *port, *semaphore, *event;
    EXPECT(tombolo_hub_open(task, "c-port", TOMBOLO_PORT, "text", PATIENCE_NS, &port), TOMBOLO_OK);
    EXPECT(tombolo_hub_open(task, "c-count", TOMBOLO_SEMAPHORE, "", PATIENCE_NS, &semaphore), TOMBOLO_OK);
    EXPECT(tombolo_hub_open(task, "c-go", TOMBOLO_EVENT, "", PATIENCE_NS, &event), TOMBOLO_OK);
    char text[64];
    tombolo_select_arm arms[2] = {{.hub = port, .buffer = text, .capacity = sizeof text}, {.hub = semaphore}};
    size_t index = 99;
    EXPECT(tombolo_select(task, arms, 2, 0, &index), TOMBOLO_TIMED_OUT);
    EXPECT(tombolo_select(task, arms, 2, TOMBOLO_MILLISECOND, &index), TOMBOLO_TIMED_OUT);
    EXPECT(tombolo_select(task, arms, 0, 0, &index), TOMBOLO_INVALID_ARGUMENT);
    EXPECT(tombolo_hub_put(semaphore, NULL, 0, PATIENCE_NS), TOMBOLO_OK);
    EXPECT(tombolo_select(task, arms, 2, PATIENCE_NS, &index), TOMBOLO_OK);
    if (index != 1)
        return fprintf(stderr, "the semaphore is %zu\n", index);
    /* The test sends once this was raised. */
    EXPECT(tombolo_hub_put(event, NULL, 0, PATIENCE_NS), TOMBOLO_OK);
    EXPECT(tombolo_select(task, arms, 2, PATIENCE_NS, &index), TOMBOLO_OK);
    if (index != 0)
        return fprintf(stderr, "the port is %zu\n", index);
    printf("received %.*s\n", (int)arms[0].length, text);
    arms[0].puts = true;
    arms[0].value = "from C";
    arms[0].length = 6;
    EXPECT(tombolo_select(task, arms, 2, PATIENCE_NS, &index), TOMBOLO_OK);
    tombolo_hub_drop(port);
    tombolo_hub_drop(semaphore);
    tombolo_hub_drop(event);
    return 0;
}

int main(void)
{
    tombolo_domain *domain;
    EXPECT(tombolo_attach(&domain), TOMBOLO_OK);
    tombolo_task *task;
    EXPECT(tombolo_task_attach(domain, 256, &task), TOMBOLO_INVALID_ARGUMENT);
    EXPECT(tombolo_task_attach(domain, 7, &task), TOMBOLO_OK);
    tombolo_hub *hub;
    EXPECT(tombolo_hub_open(task, "nowhere", TOMBOLO_FIFO, "", TOMBOLO_MILLISECOND, &hub), TOMBOLO_NO_SUCH_NAME);
    EXPECT(tombolo_hub_open(task, "c-fifo", TOMBOLO_EVENT, "", PATIENCE_NS, &hub), TOMBOLO_HUB_REFUSED);
    EXPECT(tombolo_hub_open(task, "c-fifo", 0, "", PATIENCE_NS, &hub), TOMBOLO_INVALID_ARGUMENT);
    if (test_fifos(task) != 0 || test_locks_and_blocks(task) != 0 || test_selects(task) != 0)
        return 1;
    tombolo_task_end(task);
    tombolo_detach(domain);
    printf("all held\n");
    return 0;
}
