/*
 * Tasks of programs in several languages: `tasks ON FIFO [WORKER …]` starts workers, of the program WORKER or of this one, and tasks on them. As a
 * worker it has the functions that `actor tasks` and `task_functions.py` have, and the starters of all three print the same lines.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tombolo/tasks.h>

#define PATIENCE_NS (60 * TOMBOLO_SECOND)
#define VALUES 10

#define EXPECT(call, expected)                                                                             \
    do {                                                                                                   \
        tombolo_status status_ = (call);                                                                   \
        if (status_ != (expected)) {                                                                       \
            fprintf(stderr, "%s is %s: %s\n", #call, tombolo_error_name(status_), tombolo_last_error());   \
            exit(1);                                                                                       \
        }                                                                                                  \
    } while (0)

#define PASS(call)                                                                                         \
    do {                                                                                                   \
        tombolo_status status_ = (call);                                                                   \
        if (status_ != TOMBOLO_OK)                                                                         \
            return status_;                                                                                \
    } while (0)

static const tombolo_signature SQUARE = {"square", "u64", "u64"};
static const tombolo_signature DESCRIBE = {"describe", "(u64, text)", "(text, u64)"};
static const tombolo_signature FAILS = {"fails", "text", "unit"};
static const tombolo_signature FOREVER = {"forever", "unit", "unit"};
static const tombolo_signature SEND = {"send", "(text, u64)", "u64"};
static const tombolo_signature NESTED = {"nested", "u64", "u64"};
static const tombolo_signature DIE = {"die", "unit", "unit"};
static const tombolo_signature WRONG = {"square", "u8", "u8"};

static tombolo_status put_u64(tombolo_result *result, uint64_t number)
{
    uint8_t bytes[8];
    return tombolo_result_set(result, bytes, tombolo_value_put_number(bytes, number, sizeof bytes));
}

static tombolo_status square(const tombolo_context *context, const void *argument, size_t length, tombolo_result *result, void *data)
{
    const uint64_t number = tombolo_value_number(argument, length);
    (void)context;
    (void)data;
    return put_u64(result, number * number);
}

static tombolo_status describe(const tombolo_context *context, const void *argument, size_t length, tombolo_result *result, void *data)
{
    tombolo_tuple tuple = tombolo_tuple_of(argument, length);
    size_t bytes, text_length;
    const uint8_t *number = tombolo_tuple_next(&tuple, &bytes), *text = tombolo_tuple_next(&tuple, &text_length);
    char said[200];
    uint8_t doubled[8], value[300];
    const int said_length = snprintf(said, sizeof said, "%s %s %.*s", (const char *)data,
                                     tombolo_node_name(tombolo_context_domain(context)), (int)text_length, (const char *)text);
    size_t used = tombolo_value_put_field(value, said, (size_t)said_length);
    tombolo_value_put_number(doubled, 2 * tombolo_value_number(number, bytes), sizeof doubled);
    used += tombolo_value_put_field(value + used, doubled, sizeof doubled);
    return tombolo_result_set(result, value, used);
}

static tombolo_status fails(const tombolo_context *context, const void *argument, size_t length, tombolo_result *result, void *data)
{
    char text[200];
    (void)context;
    (void)data;
    snprintf(text, sizeof text, "%.*s", (int)length, (const char *)argument);
    return tombolo_result_fail(result, text);
}

static tombolo_status forever(const tombolo_context *context, const void *argument, size_t length, tombolo_result *result, void *data)
{
    (void)context, (void)argument, (void)length, (void)result, (void)data;
    for (;;)
        PASS(tombolo_task_yield());
}

static tombolo_status send(const tombolo_context *context, const void *argument, size_t length, tombolo_result *result, void *data)
{
    tombolo_tuple tuple = tombolo_tuple_of(argument, length);
    size_t name_length, bytes;
    const uint8_t *name = tombolo_tuple_next(&tuple, &name_length), *count = tombolo_tuple_next(&tuple, &bytes);
    const uint64_t values = tombolo_value_number(count, bytes);
    char fifo[64];
    tombolo_task *task;
    tombolo_hub *hub;
    tombolo_status status = TOMBOLO_OK;
    (void)data;
    snprintf(fifo, sizeof fifo, "%.*s", (int)name_length, (const char *)name);
    PASS(tombolo_context_hubs(context, &task));
    PASS(tombolo_hub_open(task, fifo, TOMBOLO_FIFO, "u64", PATIENCE_NS, &hub));
    for (uint64_t value = 1; value <= values && status == TOMBOLO_OK; value++) {
        uint8_t number[8];
        status = tombolo_hub_put(hub, number, tombolo_value_put_number(number, value, 8), PATIENCE_NS);
    }
    tombolo_hub_drop(hub);
    tombolo_task_end(task);
    return status == TOMBOLO_OK ? put_u64(result, values) : status;
}

static tombolo_status nested(const tombolo_context *context, const void *argument, size_t length, tombolo_result *result, void *data)
{
    const uint64_t count = tombolo_value_number(argument, length);
    tombolo_join *started[32];
    uint64_t sum = 0;
    (void)data;
    for (uint64_t number = 0; number < count && number < 32; number++) {
        uint8_t bytes[8];
        tombolo_value_put_number(bytes, number, sizeof bytes);
        PASS(tombolo_context_go(context, NULL, &SQUARE, bytes, sizeof bytes, &started[number]));
    }
    for (uint64_t number = 0; number < count && number < 32; number++) {
        uint8_t bytes[8];
        PASS(tombolo_join_wait(started[number], bytes, sizeof bytes, NULL, PATIENCE_NS));
        sum += tombolo_value_number(bytes, sizeof bytes);
        tombolo_join_drop(started[number]);
    }
    return put_u64(result, sum);
}

static tombolo_status die(const tombolo_context *context, const void *argument, size_t length, tombolo_result *result, void *data)
{
    (void)context, (void)argument, (void)length, (void)result, (void)data;
    abort();
}

static tombolo_functions *create_functions(void)
{
    tombolo_functions *all;
    EXPECT(tombolo_functions_create(&all), TOMBOLO_OK);
    EXPECT(tombolo_functions_register(all, &SQUARE, square, NULL), TOMBOLO_OK);
    EXPECT(tombolo_functions_register(all, &DESCRIBE, describe, (void *)(uintptr_t) "c"), TOMBOLO_OK);
    EXPECT(tombolo_functions_register(all, &FAILS, fails, NULL), TOMBOLO_OK);
    EXPECT(tombolo_functions_register(all, &FOREVER, forever, NULL), TOMBOLO_OK);
    EXPECT(tombolo_functions_register(all, &SEND, send, NULL), TOMBOLO_OK);
    EXPECT(tombolo_functions_register(all, &NESTED, nested, NULL), TOMBOLO_OK);
    EXPECT(tombolo_functions_register(all, &DIE, die, NULL), TOMBOLO_OK);
    return all;
}

static tombolo_join *go(tombolo_tasks *tasks, const tombolo_signature *signature, const void *argument, size_t length)
{
    tombolo_join *join;
    EXPECT(tombolo_tasks_go(tasks, NULL, signature, argument, length, &join), TOMBOLO_OK);
    return join;
}

static uint64_t join_number(tombolo_join *join)
{
    uint8_t bytes[8];
    EXPECT(tombolo_join_wait(join, bytes, sizeof bytes, NULL, PATIENCE_NS), TOMBOLO_OK);
    tombolo_join_drop(join);
    return tombolo_value_number(bytes, sizeof bytes);
}

static void expect_end(const char *what, tombolo_join *join, tombolo_status expected)
{
    EXPECT(tombolo_join_wait(join, NULL, 0, NULL, PATIENCE_NS), expected);
    printf("%s: %s\n", what, tombolo_last_error());
    tombolo_join_drop(join);
}

static void test_describe(tombolo_tasks *tasks)
{
    uint8_t argument[64], number[8], value[256];
    size_t used, length, bytes;
    tombolo_join *join;
    tombolo_value_put_number(number, 7, sizeof number);
    used = tombolo_value_put_field(argument, number, sizeof number);
    used += tombolo_value_put_field(argument + used, "hällo", strlen("hällo"));
    join = go(tasks, &DESCRIBE, argument, used);
    /* A result that does not fit is left for the next wait. */
    EXPECT(tombolo_join_wait(join, value, 1, &length, PATIENCE_NS), TOMBOLO_BUFFER_TOO_SHORT);
    EXPECT(tombolo_join_wait(join, value, length, &length, PATIENCE_NS), TOMBOLO_OK);
    tombolo_tuple tuple = tombolo_tuple_of(value, length);
    const uint8_t *text = tombolo_tuple_next(&tuple, &length), *doubled = tombolo_tuple_next(&tuple, &bytes);
    printf("described %.*s %" PRIu64 "\n", (int)length, (const char *)text, tombolo_value_number(doubled, bytes));
    tombolo_join_drop(join);
}

static void test_send(const tombolo_domain *domain, tombolo_tasks *tasks, const char *fifo)
{
    uint8_t argument[128], count[8], value[8];
    uint64_t sum = 0;
    size_t used = tombolo_value_put_field(argument, fifo, strlen(fifo));
    tombolo_task *task;
    tombolo_hub *hub;
    tombolo_value_put_number(count, VALUES, sizeof count);
    used += tombolo_value_put_field(argument + used, count, sizeof count);
    tombolo_join *senders[2] = {go(tasks, &SEND, argument, used), go(tasks, &SEND, argument, used)};
    EXPECT(tombolo_task_attach(domain, -1, &task), TOMBOLO_OK);
    EXPECT(tombolo_hub_open(task, fifo, TOMBOLO_FIFO, "u64", PATIENCE_NS, &hub), TOMBOLO_OK);
    for (int index = 0; index < 2 * VALUES; index++) {
        EXPECT(tombolo_hub_get(hub, value, sizeof value, NULL, PATIENCE_NS), TOMBOLO_OK);
        sum += tombolo_value_number(value, sizeof value);
    }
    printf("sum %" PRIu64 " of %" PRIu64 "\n", sum, join_number(senders[0]) + join_number(senders[1]));
    tombolo_hub_drop(hub);
    tombolo_task_end(task);
}

static int start(int count, char **words)
{
    const char *const on = words[1], *const fifo = words[2];
    const char *const *arguments = (const char *const *)&words[count > 4 ? 4 : count];
    const tombolo_spawn_options program = {count > 3 ? words[3] : NULL, NULL, arguments, NULL, NULL};
    tombolo_domain *domain;
    tombolo_tasks *tasks;
    tombolo_join *join;
    uint8_t number[8];
    EXPECT(tombolo_attach(&domain), TOMBOLO_OK);
    EXPECT(tombolo_tasks_start(domain, &program, "mars", &tasks), TOMBOLO_NO_SUCH_NODE);
    EXPECT(tombolo_tasks_start(domain, count > 3 ? &program : NULL, on, &tasks), TOMBOLO_OK);
    tombolo_value_put_number(number, 7, sizeof number);
    printf("square %" PRIu64 "\n", join_number(go(tasks, &SQUARE, number, sizeof number)));
    test_describe(tasks);
    join = go(tasks, &FOREVER, NULL, 0);
    tombolo_join_cancel(join);
    expect_end("cancelled", join, TOMBOLO_TASK_CANCELLED);
    join = go(tasks, &FOREVER, NULL, 0);
    EXPECT(tombolo_join_wait(join, NULL, 0, NULL, 100 * TOMBOLO_MILLISECOND), TOMBOLO_TIMED_OUT);
    tombolo_join_cancel(join);
    expect_end("cancelled", join, TOMBOLO_TASK_CANCELLED);
    expect_end("unknown", go(tasks, &WRONG, number, 1), TOMBOLO_TASK_REFUSED);
    EXPECT(tombolo_tasks_go(tasks, NULL, &SQUARE, number, 7, &join), TOMBOLO_TASK_REFUSED);
    EXPECT(tombolo_tasks_go(tasks, "mars", &SQUARE, number, 8, &join), TOMBOLO_NO_SUCH_NODE);
    test_send(domain, tasks, fifo);
    tombolo_value_put_number(number, 10, sizeof number);
    printf("nested %" PRIu64 "\n", join_number(go(tasks, &NESTED, number, sizeof number)));
    expect_end("failed", go(tasks, &FAILS, "on purpose", strlen("on purpose")), TOMBOLO_TASK_FAILED);
    expect_end("lost", go(tasks, &DIE, NULL, 0), TOMBOLO_TASK_LOST);
    printf("again %" PRIu64 "\n", join_number(go(tasks, &SQUARE, number, sizeof number)));
    tombolo_tasks_end(tasks);
    tombolo_detach(domain);
    return 0;
}

int main(int count, char **words)
{
    int status;
    if (tombolo_functions_run_worker(create_functions(), &status))
        return status;
    if (count < 3) {
        fprintf(stderr, "usage: tasks ON FIFO [WORKER …]\n");
        return 2;
    }
    return start(count, words);
}
