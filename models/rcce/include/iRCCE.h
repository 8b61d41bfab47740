/* iRCCE: requests for RCCE that do not wait, and more. Names and meanings are those of iRCCE 1.x and 2.0.
 *
 * A request's memory is the library's until the request is complete. Requests advance in every call of the library
 * that waits, tests or pushes. Messages between two ranks arrive in the order in which they were sent.
 */
#ifndef IRCCE_H
#define IRCCE_H

#include "RCCE.h"

#ifdef __cplusplus
extern "C" {
#endif

#define iRCCE_VERSION "2.0 (Tombolo)"

#define iRCCE_SUCCESS RCCE_SUCCESS
#define iRCCE_ERROR (-1)
/* The request has begun, or waits for its message. */
#define iRCCE_PENDING (-2)
/* It waits for an earlier one. */
#define iRCCE_RESERVED (-3)
/* There is no such request any more. */
#define iRCCE_NOT_ENQUEUED (-4)

/* For receives: from any rank, of any length. The program answers for the room for what comes. */
extern const int iRCCE_ANY_SOURCE;
extern const int iRCCE_ANY_LENGTH;

/* A request. Its fields are the library's; functions below read them. */
typedef struct _iRCCE_SEND_REQUEST {
    char *privbuf;
    size_t size;
    int dest;
    int finished;
    unsigned long long number;
} iRCCE_SEND_REQUEST;

typedef struct _iRCCE_RECV_REQUEST {
    char *privbuf;
    size_t size;
    int source;
    int finished;
    unsigned long long number;
} iRCCE_RECV_REQUEST;

#define iRCCE_WAIT_LIST_RECV_TYPE 0
#define iRCCE_WAIT_LIST_SEND_TYPE 1

typedef struct _iRCCE_WAIT_LISTELEM {
    int type;
    struct _iRCCE_WAIT_LISTELEM *next;
    void *req;
} iRCCE_WAIT_LISTELEM;

/* Requests that stay where they are until they were taken out. */
typedef struct _iRCCE_WAIT_LIST {
    iRCCE_WAIT_LISTELEM *first;
    iRCCE_WAIT_LISTELEM *last;
} iRCCE_WAIT_LIST;

/* Does nothing: RCCE_init has started all. */
static inline int iRCCE_init(void) { return iRCCE_SUCCESS; }

/* Sends and receives. They return iRCCE_SUCCESS if they are complete already. Without a request they wait. Tests and
 * waits without a request are for all sends, or all receives. */
int iRCCE_isend(char *message, ssize_t size, int dest, iRCCE_SEND_REQUEST *request);
int iRCCE_isend_test(iRCCE_SEND_REQUEST *request, int *flag);
int iRCCE_isend_wait(iRCCE_SEND_REQUEST *request);
int iRCCE_isend_push(void);
int iRCCE_irecv(char *room, ssize_t size, int source, iRCCE_RECV_REQUEST *request);
int iRCCE_irecv_test(iRCCE_RECV_REQUEST *request, int *flag);
int iRCCE_irecv_wait(iRCCE_RECV_REQUEST *request);
int iRCCE_irecv_push(void);
int iRCCE_issend(char *message, ssize_t size, int dest, iRCCE_SEND_REQUEST *request);
int iRCCE_isrecv(char *room, ssize_t size, int source, iRCCE_RECV_REQUEST *request);
#define iRCCE_issend_test iRCCE_isend_test
#define iRCCE_issend_wait iRCCE_isend_wait
#define iRCCE_issend_push iRCCE_isend_push
#define iRCCE_isrecv_test iRCCE_irecv_test
#define iRCCE_isrecv_wait iRCCE_irecv_wait
#define iRCCE_isrecv_push iRCCE_irecv_push

/* Withdraws a request of which nothing has moved: flag is 1 if it could. */
int iRCCE_isend_cancel(iRCCE_SEND_REQUEST *request, int *flag);
int iRCCE_irecv_cancel(iRCCE_RECV_REQUEST *request, int *flag);

/* Sends and receives that wait. */
int iRCCE_ssend(char *message, ssize_t size, int dest);
int iRCCE_srecv(char *room, ssize_t size, int source);
int iRCCE_srecv_test(char *room, ssize_t size, int source, int *test);
#define iRCCE_send iRCCE_ssend
#define iRCCE_recv iRCCE_srecv
#define iRCCE_recv_test iRCCE_srecv_test

/* Whether a message is there, from which rank; iRCCE_get_length says how long it is. */
int iRCCE_probe(int source, int *found);
int iRCCE_iprobe(int source, int *found, int *flag);

/* Lists of requests. Of those that *_any take out, one is not NULL. */
void iRCCE_init_wait_list(iRCCE_WAIT_LIST *list);
void iRCCE_add_to_wait_list(iRCCE_WAIT_LIST *list, iRCCE_SEND_REQUEST *send, iRCCE_RECV_REQUEST *receive);
int iRCCE_test_all(iRCCE_WAIT_LIST *list, int *flag);
int iRCCE_wait_all(iRCCE_WAIT_LIST *list);
int iRCCE_test_any(iRCCE_WAIT_LIST *list, iRCCE_SEND_REQUEST **send, iRCCE_RECV_REQUEST **receive);
int iRCCE_wait_any(iRCCE_WAIT_LIST *list, iRCCE_SEND_REQUEST **send, iRCCE_RECV_REQUEST **receive);

/* Of a request; iRCCE_get_source(NULL) and iRCCE_get_length of the message that was received or found last. */
int iRCCE_get_dest(iRCCE_SEND_REQUEST *request);
int iRCCE_get_source(iRCCE_RECV_REQUEST *request);
int iRCCE_get_size(iRCCE_SEND_REQUEST *send, iRCCE_RECV_REQUEST *receive);
int iRCCE_get_length(void);

/* As those of RCCE. */
t_vcharp iRCCE_malloc(size_t size);
int iRCCE_put(t_vcharp target, t_vcharp source, int size, int ue);
int iRCCE_get(t_vcharp target, t_vcharp source, int size, int ue);
int iRCCE_barrier(RCCE_COMM *comm);
int iRCCE_bcast(char *message, size_t size, int root, RCCE_COMM comm);
#define iRCCE_flag_alloc RCCE_flag_alloc
#define iRCCE_flag_write RCCE_flag_write
#define iRCCE_flag_read RCCE_flag_read
#define iRCCE_wait_until RCCE_wait_until

/* Flags with up to iRCCE_get_max_tagged_len() bytes that travel with them. */
#define iRCCE_MAX_TAGGED_LEN 56
#define iRCCE_flag_alloc_tagged RCCE_flag_alloc
#define iRCCE_flag_free_tagged RCCE_flag_free
int iRCCE_flag_write_tagged(RCCE_FLAG *flag, RCCE_FLAG_STATUS value, int ue, void *tag, int length);
int iRCCE_flag_read_tagged(RCCE_FLAG flag, RCCE_FLAG_STATUS *value, int ue, void *tag, int length);
int iRCCE_wait_tagged(RCCE_FLAG flag, RCCE_FLAG_STATUS value, void *tag, int length);
int iRCCE_test_tagged(RCCE_FLAG flag, RCCE_FLAG_STATUS value, int *result, void *tag, int length);
int iRCCE_get_max_tagged_len(void);

/* The names of these in RCCE 1.0.13. */
#define RCCE_isend iRCCE_isend
#define RCCE_isend_test iRCCE_isend_test
#define RCCE_isend_wait iRCCE_isend_wait
#define RCCE_isend_push(...) iRCCE_isend_push()
#define RCCE_irecv iRCCE_irecv
#define RCCE_irecv_test iRCCE_irecv_test
#define RCCE_irecv_wait iRCCE_irecv_wait
#define RCCE_irecv_push(...) iRCCE_irecv_push()
#define RCCE_SEND_REQUEST iRCCE_SEND_REQUEST
#define RCCE_RECV_REQUEST iRCCE_RECV_REQUEST

#ifdef __cplusplus
}
#endif

#endif
