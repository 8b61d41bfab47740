/*
 * Tasks: functions that a program starts on any node, as Go starts goroutines.
 *
 * A program registers functions by name and types, and passes them to tombolo_functions_run_worker before it does anything else. A starter
 * has workers, further domains of that program on nodes of its choice. Starter and workers may be programs in different languages:
 * functions are identified by name and types, such as `count(u64) -> (u64, text)`.
 *
 * Types are u8 to u64, i8 to i64, f32, f64, bool, unit, text, tuples of 2 to 4 such as "(u64, text)", the name of a type that an interface
 * declares, or "" for any bytes. Arguments and results are at most 16 KiB; tombolo/values.h encodes and decodes them.
 *
 * A worker runs its tasks cooperatively, one at a time. It switches only while a task waits in an operation on a hub, in tombolo_join_wait or
 * in tombolo_task_yield; any other wait blocks the worker. State that tasks of a worker share needs no lock between two such switches.
 */
#ifndef TOMBOLO_TASKS_H
#define TOMBOLO_TASKS_H

#include <tombolo.h>
#include <tombolo/hubs.h>
#include <tombolo/values.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Identity of a function. */
typedef struct tombolo_signature {
    const char *name;
    const char *argument; /* types of the argument and the result */
    const char *result;
} tombolo_signature;

/* --- functions and workers ----------------------------------------------------------------------------------------- */

typedef struct tombolo_functions tombolo_functions;

/* A task's access to its worker, valid until the task returns. */
typedef struct tombolo_context tombolo_context;

/* Destination of a task's result. */
typedef struct tombolo_result tombolo_result;

/* A function that tasks run, on a thread of its worker. `argument` was validated against its type. Any status but TOMBOLO_OK ends the
 * task with an error, whose text is that of tombolo_result_fail or else of the thread's last failure. */
typedef tombolo_status (*tombolo_function)(const tombolo_context *context, const void *argument, size_t length,
                                           tombolo_result *result, void *data);

tombolo_status tombolo_functions_create(tombolo_functions **functions);

/* Registers a function, replacing one of the same signature. `data` is passed to it. */
tombolo_status tombolo_functions_register(tombolo_functions *functions, const tombolo_signature *signature,
                                          tombolo_function function, void *data);

/* If this program was started as a worker, runs tasks until the starter ends, and returns true and the status that `main` should return.
 * Otherwise returns false. Releases the functions in both cases. */
bool tombolo_functions_run_worker(tombolo_functions *functions, int *exit_status);

/* Sets the bytes of the result, which are copied. A result is empty by default. */
tombolo_status tombolo_result_set(tombolo_result *result, const void *bytes, size_t length);

/* Sets the text of the error that the task ends with, and returns TOMBOLO_TASK_FAILED for the function to return. */
tombolo_status tombolo_result_fail(tombolo_result *result, const char *text);

/* Returns the worker's domain. */
const tombolo_domain *tombolo_context_domain(const tombolo_context *context);

/* Returns the tombolo_task through which all tasks of a worker use hubs; each opens its own hubs. End it with tombolo_task_end. The worker
 * owns the resources locked with it: to lock one against other tasks of the same worker, attach a separate tombolo_task. */
tombolo_status tombolo_context_hubs(const tombolo_context *context, tombolo_task **task);

/* Lets other tasks of the worker run and processes messages: for tasks that compute for long. TOMBOLO_TASK_CANCELLED: the task was cancelled and
 * must return; all its further waits return this too. */
tombolo_status tombolo_task_yield(void);

/* --- starting ------------------------------------------------------------------------------------------------------ */

typedef struct tombolo_tasks tombolo_tasks;

/* A task that was started. */
typedef struct tombolo_join tombolo_join;

/* Starts workers and waits until they have connected. `program` is the program that they run, its node is ignored; null for this program.
 * `on` lists nodes: "host:2,arm0" for two on one node and one on another, "auto:4" for the four best processors. After TOMBOLO_START_FAILED
 * tombolo_last_error() names the node. */
tombolo_status tombolo_tasks_start(const tombolo_domain *domain, const tombolo_spawn_options *program, const char *on,
                                   tombolo_tasks **tasks);

/* Ends the workers, cancelling running tasks. */
void tombolo_tasks_end(tombolo_tasks *tasks);

/* Starts a task on a worker of a node, or of any node if `node` is null. The task runs when a worker asks for it. TOMBOLO_TASK_REFUSED: the
 * argument does not match its type, or there is no such worker. */
tombolo_status tombolo_tasks_go(const tombolo_tasks *tasks, const char *node, const tombolo_signature *signature,
                                const void *argument, size_t length, tombolo_join **join);

/* As tombolo_tasks_go, from within a task, for any worker of its starter. */
tombolo_status tombolo_context_go(const tombolo_context *context, const char *node, const tombolo_signature *signature,
                                  const void *argument, size_t length, tombolo_join **join);

/* Waits until the task ends and returns its result, once. TOMBOLO_TASK_FAILED: it ended with an error, described by tombolo_last_error();
 * TOMBOLO_TASK_LOST: its worker died; TOMBOLO_TASK_REFUSED: the worker has no such function; TOMBOLO_TASK_CANCELLED: it or the waiting task was
 * cancelled. TOMBOLO_BUFFER_TOO_SHORT: `*length` is the result's length, and the next wait returns it. */
tombolo_status tombolo_join_wait(tombolo_join *join, void *buffer, size_t capacity, size_t *length, uint64_t timeout_ns);

/* Cancels the task: at once if it has not begun, otherwise at its next wait. */
void tombolo_join_cancel(const tombolo_join *join);

/* Releases the handle; the task continues. */
void tombolo_join_drop(tombolo_join *join);

#ifdef __cplusplus
}
#endif

#endif
