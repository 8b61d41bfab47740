/* RCCE for the nodes of a Tombolo machine: the message library of the Single-chip Cloud Computer.
 *
 * Names and meanings are those of RCCE 1.x and 2.0. Every rank ("unit of execution", UE) of a job has a message buffer
 * that all ranks reach by put and get. RCCE_malloc and RCCE_flag_alloc are collective: all ranks make the same calls in
 * the same order, and an address that one gets names the same place in everybody's buffer.
 *
 *   #include <RCCE.h>
 *   int RCCE_APP(int argc, char **argv) {
 *       RCCE_init(&argc, &argv);
 *       ...
 *       return RCCE_finalize();
 *   }
 *
 * With GORY defined before the header is included, send and receive take a buffer and flags of the program.
 *
 * Functions return RCCE_SUCCESS or an error (RCCE_error_string). Every error is also written to the standard error,
 * with rank and call. If a rank ends without RCCE_finalize, calls of others that wait end their programs.
 */
#ifndef RCCE_H
#define RCCE_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define _RCCE "2.0 (Tombolo)"

/* The program's main function. */
#define RCCE_APP main

/* Where RCCE's programs write errors. */
#define STDERR stderr

/* Bytes of a cache line. Lengths of put and get are multiples of 32; what two ranks write at the same time lies in
 * different lines of this length, where memory is not coherent. */
#define LOG2_LINE_SIZE 6
#define RCCE_LINE_SIZE (1 << LOG2_LINE_SIZE)

/* Bytes of a rank's message buffer: all ranks are built with the same. A multiple of 128, at most 16 MiB. */
#ifndef RCCE_BUFF_SIZE_MAX
#define RCCE_BUFF_SIZE_MAX (1 << 13)
#endif

/* The most ranks of a job. */
#define RCCE_MAXNP 256

#define RCCE_SUCCESS 0
#define RCCE_ERROR (-1)
#define RCCE_ERROR_BASE 1234321
#define RCCE_ERROR_TARGET (RCCE_ERROR_BASE + 1)
#define RCCE_ERROR_SOURCE (RCCE_ERROR_BASE + 2)
#define RCCE_ERROR_ID (RCCE_ERROR_BASE + 3)
#define RCCE_ERROR_MESSAGE_LENGTH (RCCE_ERROR_BASE + 4)
#define RCCE_ERROR_FLAG_UNDEFINED (RCCE_ERROR_BASE + 5)
#define RCCE_ERROR_NUM_UES (RCCE_ERROR_BASE + 6)
#define RCCE_ERROR_DATA_OVERLAP (RCCE_ERROR_BASE + 7)
#define RCCE_ERROR_ALIGNMENT (RCCE_ERROR_BASE + 8)
#define RCCE_ERROR_DEBUG_FLAG (RCCE_ERROR_BASE + 9)
#define RCCE_ERROR_FLAG_NOT_IN_COMM_BUFFER (RCCE_ERROR_BASE + 10)
#define RCCE_ERROR_FLAG_STATUS_UNDEFINED (RCCE_ERROR_BASE + 11)
#define RCCE_ERROR_FLAG_NOT_ALLOCATED (RCCE_ERROR_BASE + 12)
#define RCCE_ERROR_VAL_UNDEFINED (RCCE_ERROR_BASE + 13)
#define RCCE_ERROR_INVALID_ERROR_CODE (RCCE_ERROR_BASE + 14)
#define RCCE_ERROR_RPC_NOT_ALLOCATED (RCCE_ERROR_BASE + 15)
#define RCCE_ERROR_RPC_INTERNAL (RCCE_ERROR_BASE + 16)
#define RCCE_ERROR_MULTIPLE_RPC_REQUESTS (RCCE_ERROR_BASE + 17)
#define RCCE_ERROR_FDIVIDER (RCCE_ERROR_BASE + 18)
#define RCCE_ERROR_FREQUENCY_EXCEEDED (RCCE_ERROR_BASE + 19)
#define RCCE_ERROR_NO_ACTIVE_RPC_REQUEST (RCCE_ERROR_BASE + 20)
#define RCCE_ERROR_STALE_RPC_REQUEST (RCCE_ERROR_BASE + 21)
#define RCCE_ERROR_COMM_UNDEFINED (RCCE_ERROR_BASE + 22)
#define RCCE_ERROR_ILLEGAL_OP (RCCE_ERROR_BASE + 23)
#define RCCE_ERROR_ILLEGAL_TYPE (RCCE_ERROR_BASE + 24)
#define RCCE_ERROR_MALLOC (RCCE_ERROR_BASE + 25)
#define RCCE_ERROR_COMM_INITIALIZED (RCCE_ERROR_BASE + 26)
#define RCCE_ERROR_CORE_NOT_IN_HOSTFILE (RCCE_ERROR_BASE + 27)
#define RCCE_ERROR_NO_POWER_MANAGEMENT (RCCE_ERROR_BASE + 100)
#define RCCE_MAX_ERROR_STRING 64

#define RCCE_DEBUG_ALL 111111
#define RCCE_DEBUG_SYNCH 111444
#define RCCE_DEBUG_COMM 111555
#define RCCE_DEBUG_RPC 111666
#define RCCE_DEBUG_DEBUG 111888

#define RCCE_FLAG_SET 1
#define RCCE_FLAG_UNSET 0

#define RCCE_NUM_OPS 4
#define RCCE_OP_BASE 23232323
#define RCCE_SUM (RCCE_OP_BASE)
#define RCCE_MIN (RCCE_OP_BASE + 1)
#define RCCE_MAX (RCCE_OP_BASE + 2)
#define RCCE_PROD (RCCE_OP_BASE + 3)

#define RCCE_TYPE_BASE 63636363
#define RCCE_INT (RCCE_TYPE_BASE)
#define RCCE_LONG (RCCE_TYPE_BASE + 1)
#define RCCE_FLOAT (RCCE_TYPE_BASE + 2)
#define RCCE_DOUBLE (RCCE_TYPE_BASE + 3)

/* An address in this rank's message buffer. */
typedef volatile unsigned char *t_vcharp;

/* A flag: a line of the message buffer. */
typedef volatile int *RCCE_FLAG;
typedef int RCCE_FLAG_STATUS;

/* A communicator. Its fields are the library's. */
typedef struct {
    int size;
    int my_rank;
    int initialized;
    int member[RCCE_MAXNP];
} RCCE_COMM;

/* All ranks. */
extern RCCE_COMM RCCE_COMM_WORLD;

/* Start and end. RCCE_init takes nothing out of the arguments. RCCE_finalize waits for all ranks. */
int RCCE_init(int *argc, char ***argv);
#define RCCE_init(argc, argv) ((void)(argc), (void)(argv), tombolo_rcce_init(RCCE_BUFF_SIZE_MAX, RCCE_MAXNP))
int tombolo_rcce_init(size_t buffer_bytes, int max_ranks);
int RCCE_finalize(void);

int RCCE_ue(void);
int RCCE_num_ues(void);
/* Seconds. */
double RCCE_wtime(void);

/* The message buffer. RCCE_malloc returns NULL if it has no room; what it gives out is zero. Where memory is not
 * coherent, a put to this rank itself reaches others, and a store by address does not. After RCCE_free or
 * RCCE_flag_free all ranks meet in a barrier before one uses what is allocated there next. */
t_vcharp RCCE_malloc(size_t size);
t_vcharp RCCE_malloc_request(size_t size, size_t *given);
void RCCE_free(t_vcharp address);
int RCCE_put(t_vcharp target, t_vcharp source, int size, int ue);
int RCCE_get(t_vcharp target, t_vcharp source, int size, int ue);

/* Flags. A flag has one writer at a time. Those that were just allocated are unset. */
int RCCE_flag_alloc(RCCE_FLAG *flag);
int RCCE_flag_free(RCCE_FLAG *flag);
int RCCE_flag_write(RCCE_FLAG *flag, RCCE_FLAG_STATUS value, int ue);
int RCCE_flag_read(RCCE_FLAG flag, RCCE_FLAG_STATUS *value, int ue);
int RCCE_wait_until(RCCE_FLAG flag, RCCE_FLAG_STATUS value);
int RCCE_test_flag(RCCE_FLAG flag, RCCE_FLAG_STATUS value, int *result);

/* Messages: a send returns when the message has been received. Both state the same length. */
#ifdef GORY
int RCCE_send(char *message, t_vcharp buffer, size_t chunk, RCCE_FLAG *ready, RCCE_FLAG *sent, size_t size, int dest)
    __asm__("tombolo_rcce_gory_send");
int RCCE_recv(char *room, t_vcharp buffer, size_t chunk, RCCE_FLAG *ready, RCCE_FLAG *sent, size_t size, int source)
    __asm__("tombolo_rcce_gory_recv");
int RCCE_recv_test(char *room, t_vcharp buffer, size_t chunk, RCCE_FLAG *ready, RCCE_FLAG *sent, size_t size,
                   int source, int *test) __asm__("tombolo_rcce_gory_recv_test");
#else
int RCCE_send(char *message, size_t size, int dest);
int RCCE_recv(char *room, size_t size, int source);
int RCCE_recv_test(char *room, size_t size, int source, int *test);
#endif

/* Collectives: all ranks of the communicator call them in the same order. Reductions convert between byte orders;
 * messages and broadcasts are bytes. */
int RCCE_barrier(RCCE_COMM *comm);
int RCCE_bcast(char *message, size_t size, int root, RCCE_COMM comm);
int RCCE_reduce(char *input, char *output, int count, int type, int op, int root, RCCE_COMM comm);
int RCCE_allreduce(char *input, char *output, int count, int type, int op, RCCE_COMM comm);

/* Communicators: the ranks to which `color` gives the same number. It is called for every rank, on every rank. */
int RCCE_comm_split(int (*color)(int ue, void *argument), void *argument, RCCE_COMM *comm);
int RCCE_comm_free(RCCE_COMM *comm);
int RCCE_comm_size(RCCE_COMM comm, int *size);
int RCCE_comm_rank(RCCE_COMM comm, int *rank);

/* Memory that all ranks read and write by its address. What one stored reaches others when it, and then they, have
 * called RCCE_shflush; where memory is coherent, a barrier is enough. 1 MiB, or TOMBOLO_RCCE_SHARED bytes. */
t_vcharp RCCE_shmalloc(size_t size);
void RCCE_shfree(t_vcharp address);
void RCCE_shflush(void);
void RCCE_fence(void);

/* One lock for each rank. A lock returns to others if its holder ends. */
int RCCE_acquire_lock(int ue);
int RCCE_try_lock(int ue, int *result);
int RCCE_release_lock(int ue);

int RCCE_error_string(int error, char *string, int *length);
int RCCE_debug_set(int option);
int RCCE_debug_unset(int option);

/* Power: all of these return RCCE_ERROR_NO_POWER_MANAGEMENT. */
typedef struct {
    int release;
    int old_voltage_level;
    int new_voltage_level;
    int old_frequency_divider;
    int new_frequency_divider;
    long long start_cycle;
} RCCE_REQUEST;
#define RCCE_POWER_DEFAULT -99999
extern RCCE_COMM RCCE_P_COMM;
int RCCE_power_domain(void);
int RCCE_power_domain_master(void);
int RCCE_power_domain_size(void);
int RCCE_iset_power(int divider, RCCE_REQUEST *request, int *new_divider, int *new_level);
int RCCE_wait_power(RCCE_REQUEST *request);
int RCCE_set_frequency_divider(int divider, int *new_divider);

#ifdef __cplusplus
}
#endif

/* Later versions of RCCE 1.x have requests too. */
#ifndef GORY
#include "iRCCE.h"
#endif

#endif
