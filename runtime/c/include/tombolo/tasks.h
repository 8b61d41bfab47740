/*
 * Tasks: functions that a program starts on any node, as Go starts goroutines.
 *
 * A program registers functions by name and types, and hands them to tombolo_functions_run_worker before anything else. A starter has
 * workers, which are further domains of that program on nodes of its choice. Starter and workers may be programs in different languages:
 * a function is the same where its name and types are, `count(u64) -> (u64, text)` say.
 *
 * Types are u8 to u64, i8 to i64, f32, f64, bool, unit, text, tuples of 2 to 4 such as "(u64, text)", the name of a type that an interface
 * declares, or "" for any bytes. Arguments and results are at most 16 KiB; tombolo/values.h reads and writes them.
 *
 * A worker runs one of its tasks at a time. While a task waits in an operation on a hub, in tombolo_join_wait or tombolo_task_yield, the others
 * run; whatever else a task waits in, it holds its worker. So what tasks of one program share needs no lock between two such waits.
 */
#ifndef TOMBOLO_TASKS_H
#define TOMBOLO_TASKS_H

#include <tombolo.h>
#include <tombolo/hubs.h>
#include <tombolo/values.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What tells functions apart. */
typedef struct tombolo_signature {
    const char *name;
    const char *argument; /* the types */
    const char *result;
} tombolo_signature;

/* --- functions and workers ----------------------------------------------------------------------------------------- */

typedef struct tombolo_functions tombolo_functions;

/* What a task knows of its worker, until it returns. */
typedef struct tombolo_context tombolo_context;

/* Where a task puts its result. */
typedef struct tombolo_result tombolo_result;

/* A function that tasks run, on a thread of its worker; `argument` is of its type, whatever the starter sent. Any status but TOMBOLO_OK ends
 * the task with an error, whose text is that of tombolo_result_fail or else of the thread's last failure. */
typedef tombolo_status (*tombolo_function)(const tombolo_context *context, const void *argument, size_t length,
                                           tombolo_result *result, void *data);

tombolo_status tombolo_functions_create(tombolo_functions **functions);

/* Adds a function; it replaces one of the same signature. `data` is passed to it. */
tombolo_status tombolo_functions_register(tombolo_functions *functions, const tombolo_signature *signature,
                                          tombolo_function function, void *data);

/* Where this program was started as a worker: runs tasks until the starter ends, and then says so, with the status that `main` is to return.
 * False in every other program. Gives the functions back in any case. */
bool tombolo_functions_run_worker(tombolo_functions *functions, int *exit_status);

/* The bytes of the result; none unless they are set. They are copied. */
tombolo_status tombolo_result_set(tombolo_result *result, const void *bytes, size_t length);

/* Has the task end with an error of this text; returns TOMBOLO_TASK_FAILED for the function to return. */
tombolo_status tombolo_result_fail(tombolo_result *result, const char *text);

/* The domain of the worker. */
const tombolo_domain *tombolo_context_domain(const tombolo_context *context);

/* What the tasks of a worker use hubs with; each opens its own hubs. End it with tombolo_task_end. A resource is owned by the worker: a
 * task that locks one against others of its worker attaches a tombolo_task of its own. */
tombolo_status tombolo_context_hubs(const tombolo_context *context, tombolo_task **task);

/* Lets other tasks of the worker run, and messages come in: for tasks that compute for long. TOMBOLO_TASK_CANCELLED, as all waits of such a task
 * from then on: the task was cancelled, and is to return. */
tombolo_status tombolo_task_yield(void);

/* --- starting ------------------------------------------------------------------------------------------------------ */

typedef struct tombolo_tasks tombolo_tasks;

/* A task that was started. */
typedef struct tombolo_join tombolo_join;

/* Starts workers, and waits until they have connected. `program` is what they are, its node aside; null for this program. `on` says
 * where: "host:2,arm0" for two on one node and one on another, "auto:4" for the four best processors. TOMBOLO_START_FAILED names the node. */
tombolo_status tombolo_tasks_start(const tombolo_domain *domain, const tombolo_spawn_options *program, const char *on,
                                   tombolo_tasks **tasks);

/* Ends the workers; tasks that run then are cancelled. */
void tombolo_tasks_end(tombolo_tasks *tasks);

/* Starts a task on a worker of this node, or of any if it is null. It runs when a worker asks for it. TOMBOLO_TASK_REFUSED: the argument is
 * not of its type, or there is no such worker. */
tombolo_status tombolo_tasks_go(const tombolo_tasks *tasks, const char *node, const tombolo_signature *signature,
                                const void *argument, size_t length, tombolo_join **join);

/* The same from within a task, to any worker of its starter. */
tombolo_status tombolo_context_go(const tombolo_context *context, const char *node, const tombolo_signature *signature,
                                  const void *argument, size_t length, tombolo_join **join);

/* Waits until it ends, and has its result, once. TOMBOLO_TASK_FAILED: it ended with an error, which tombolo_last_error() has; TOMBOLO_TASK_LOST:
 * its worker died; TOMBOLO_TASK_REFUSED: the worker has no such function; TOMBOLO_TASK_CANCELLED: it was, or the task that waits.
 * TOMBOLO_BUFFER_TOO_SHORT: `length` says how long it is, and the next wait has it. */
tombolo_status tombolo_join_wait(tombolo_join *join, void *buffer, size_t capacity, size_t *length, uint64_t timeout_ns);

/* Ends the task: at once where it has not begun, and otherwise where it waits next. */
void tombolo_join_cancel(const tombolo_join *join);

/* The task goes on. */
void tombolo_join_drop(tombolo_join *join);

#ifdef __cplusplus
}
#endif

#endif
