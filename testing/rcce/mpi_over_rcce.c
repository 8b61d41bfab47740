/* The calls of MPI that the kernels LU and BT of NPB make, over RCCE: what Fortran's `call mpi_send(...)` calls.
 *
 * A message of MPI has a tag, one of RCCE has none: each travels as two of RCCE, a head with tag and length and then the content, and a
 * message for which no receive waits is kept. Sends are synchronous, as MPI allows. What is not here ends the job with an error.
 */
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <RCCE.h>
#include <iRCCE.h>

typedef int32_t integer; /* Fortran's */

/* As in mpif.h. */
enum { WORLD = 1, DOUBLE_PRECISION = 11, INTEGER = 12, REAL = 13, LOGICAL = 14, SUM = 21, MIN = 22, MAX = 23 };
enum { STATUS_SOURCE, STATUS_TAG, STATUS_ERROR, STATUS_BYTES, STATUS_SIZE };

#define MAX_REQUESTS 1024

struct head {
    int64_t tag, bytes;
};

/* A request. */
struct entry {
    enum { FREE, SEND, RECEIVE } kind;
    bool done;
    int peer;
    struct head head; /* of a receive, until it is done: the tag that it waits for, and the room */
    char *content;
    iRCCE_SEND_REQUEST sends[2];
    uint64_t order; /* receives of one tag are served in the order in which they were posted */
};

struct unexpected {
    struct unexpected *next;
    int source;
    struct head head;
    char content[];
};

static struct entry requests[MAX_REQUESTS];
static struct unexpected *unexpected_messages;
static uint64_t posted;

static _Noreturn void fail(const char *form, ...)
{
    va_list arguments;
    va_start(arguments, form);
    fprintf(stderr, "MPI over RCCE, rank %d: ", RCCE_ue());
    vfprintf(stderr, form, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

/* Exits if a call failed; RCCE has printed the reason. */
static void check_rcce(int outcome, const char *call)
{
    if (outcome != RCCE_SUCCESS)
        fail("%s failed", call);
}

static size_t bytes_of(integer type)
{
    switch (type) {
    case DOUBLE_PRECISION: return 8;
    case INTEGER:
    case REAL:
    case LOGICAL: return 4;
    default: fail("there is no type %d", type);
    }
}

static int rcce_type(integer type)
{
    switch (type) {
    case DOUBLE_PRECISION: return RCCE_DOUBLE;
    case INTEGER: return RCCE_INT;
    case REAL: return RCCE_FLOAT;
    default: fail("type %d cannot be reduced", type);
    }
}

static int rcce_operation(integer operation)
{
    switch (operation) {
    case SUM: return RCCE_SUM;
    case MIN: return RCCE_MIN;
    case MAX: return RCCE_MAX;
    default: fail("there is no operation %d", operation);
    }
}

static void check_world(integer comm)
{
    if (comm != WORLD)
        fail("there is no communicator %d", comm);
}

static int check_rank(integer number)
{
    if (number < 0 || number >= RCCE_num_ues())
        fail("there is no rank %d of %d", number, RCCE_num_ues());
    return number;
}

static struct entry *free_entry(void)
{
    for (int index = 0; index < MAX_REQUESTS; index++)
        if (requests[index].kind == FREE)
            return &requests[index];
    fail("more than %d requests", MAX_REQUESTS);
}

/* Completes a receive with a message, whose content is copied or follows. */
static void accept_message(struct entry *receive, struct head head, const char *content)
{
    if (head.bytes > receive->head.bytes)
        fail("rank %d sent %lld bytes with tag %lld for %lld", receive->peer, (long long)head.bytes, (long long)head.tag,
             (long long)receive->head.bytes);
    if (content)
        memcpy(receive->content, content, (size_t)head.bytes);
    else if (head.bytes != 0)
        check_rcce(RCCE_recv(receive->content, (size_t)head.bytes, receive->peer), "RCCE_recv");
    receive->head = head;
    receive->done = true;
}

/* Returns the posted receive that matches a message. */
static struct entry *match(int source, int64_t tag)
{
    struct entry *found = NULL;
    for (int index = 0; index < MAX_REQUESTS; index++) {
        struct entry *entry = &requests[index];
        bool fits = entry->kind == RECEIVE && !entry->done && entry->peer == source && entry->head.tag == tag;
        if (fits && (!found || entry->order < found->order))
            found = entry;
    }
    return found;
}

static void store_unexpected(int source, struct head head)
{
    struct unexpected *unexpected = malloc(sizeof *unexpected + (size_t)head.bytes);
    if (!unexpected)
        fail("no memory for a message of %lld bytes", (long long)head.bytes);
    *unexpected = (struct unexpected){.source = source, .head = head};
    if (head.bytes != 0)
        check_rcce(RCCE_recv(unexpected->content, (size_t)head.bytes, source), "RCCE_recv");
    struct unexpected **last = &unexpected_messages;
    while (*last)
        last = &(*last)->next;
    *last = unexpected;
}

/* Receives available messages of ranks with posted receives; returns whether there was one. */
static bool progress(void)
{
    bool received = false;
    for (int index = 0; index < MAX_REQUESTS; index++) {
        int source = requests[index].peer, there = 1;
        while (requests[index].kind == RECEIVE && !requests[index].done) {
            struct head head;
            check_rcce(RCCE_recv_test((char *)&head, sizeof head, source, &there), "RCCE_recv_test");
            if (!there)
                break;
            received = true;
            struct entry *receive = match(source, head.tag);
            if (receive)
                accept_message(receive, head, NULL);
            else
                store_unexpected(source, head);
        }
    }
    return received;
}

static bool is_started(int outcome)
{
    return outcome == iRCCE_SUCCESS || outcome == iRCCE_PENDING || outcome == iRCCE_RESERVED;
}

static bool is_sent(struct entry *entry)
{
    for (int part = 0; part < 2; part++) {
        int flag = entry->sends[part].finished;
        if (!flag && !is_started(iRCCE_isend_test(&entry->sends[part], &flag)))
            fail("iRCCE_isend_test of a send to rank %d failed", entry->peer);
        if (!flag)
            return false;
    }
    return true;
}

static void start_send(struct entry *entry, const void *content, size_t bytes, int peer, integer tag)
{
    *entry = (struct entry){.kind = SEND, .peer = peer, .head = {tag, (int64_t)bytes}, .content = (char *)content};
    char *parts[2] = {(char *)&entry->head, entry->content};
    size_t lengths[2] = {sizeof entry->head, bytes};
    for (int part = 0; part < 2; part++) {
        entry->sends[part].finished = 1;
        if (lengths[part] == 0)
            continue;
        int result = iRCCE_isend(parts[part], (ssize_t)lengths[part], peer, &entry->sends[part]);
        if (!is_started(result))
            fail("iRCCE_isend to rank %d failed", peer);
        entry->sends[part].finished = result == iRCCE_SUCCESS;
    }
}

static void start_receive(struct entry *entry, void *room, size_t bytes, int peer, integer tag)
{
    *entry = (struct entry){.kind = RECEIVE, .peer = peer, .head = {tag, (int64_t)bytes}, .content = room, .order = posted++};
    for (struct unexpected **link = &unexpected_messages; *link; link = &(*link)->next) {
        struct unexpected *unexpected = *link;
        if (unexpected->source == peer && unexpected->head.tag == tag) {
            accept_message(entry, unexpected->head, unexpected->content);
            *link = unexpected->next;
            free(unexpected);
            return;
        }
    }
}

/* Waits for a request, while those posted before it are served, too; and ends it. */
static void finish(struct entry *entry, integer *status)
{
    while (entry->kind == SEND ? !is_sent(entry) : !entry->done)
        if (!progress())
            sched_yield();
    if (status && entry->kind == RECEIVE) {
        status[STATUS_SOURCE] = entry->peer;
        status[STATUS_TAG] = (integer)entry->head.tag;
        status[STATUS_ERROR] = 0;
        status[STATUS_BYTES] = (integer)entry->head.bytes;
    }
    entry->kind = FREE;
}

static integer handle(const struct entry *entry)
{
    return (integer)(entry - requests) + 1;
}

static void wait_for(integer *request, integer *status)
{
    if (*request < 1 || *request > MAX_REQUESTS || requests[*request - 1].kind == FREE)
        fail("there is no request %d", *request);
    finish(&requests[*request - 1], status);
    *request = 0;
}

void mpi_init_(integer *error)
{
    check_rcce(RCCE_init(NULL, NULL), "RCCE_init");
    *error = 0;
}

void mpi_finalize_(integer *error)
{
    if (unexpected_messages)
        fail("rank %d sent a message with tag %lld that nobody received", unexpected_messages->source, (long long)unexpected_messages->head.tag);
    check_rcce(RCCE_finalize(), "RCCE_finalize");
    *error = 0;
}

void mpi_abort_(integer *comm, integer *code, integer *error)
{
    (void)comm, (void)error;
    fail("aborts with code %d", *code);
}

void mpi_comm_rank_(integer *comm, integer *number, integer *error)
{
    check_world(*comm);
    *number = RCCE_ue();
    *error = 0;
}

void mpi_comm_size_(integer *comm, integer *size, integer *error)
{
    check_world(*comm);
    *size = RCCE_num_ues();
    *error = 0;
}

void mpi_comm_dup_(integer *comm, integer *other, integer *error)
{
    check_world(*comm);
    /* Messages of copies have tags that differ, in the programs that this is for. */
    *other = WORLD;
    *error = 0;
}

/* BT parts with ranks that its square has no place for. */
void mpi_comm_split_(integer *comm, integer *color, integer *key, integer *other, integer *error)
{
    (void)key;
    int least, most, own = *color;
    check_rcce(RCCE_allreduce((char *)&own, (char *)&least, 1, RCCE_INT, RCCE_MIN, RCCE_COMM_WORLD), "RCCE_allreduce");
    check_rcce(RCCE_allreduce((char *)&own, (char *)&most, 1, RCCE_INT, RCCE_MAX, RCCE_COMM_WORLD), "RCCE_allreduce");
    if (least != most)
        fail("ranks have the colors %d to %d: start as many ranks as the program was built for", least, most);
    mpi_comm_dup_(comm, other, error);
}

void mpi_barrier_(integer *comm, integer *error)
{
    check_world(*comm);
    check_rcce(RCCE_barrier(&RCCE_COMM_WORLD), "RCCE_barrier");
    *error = 0;
}

void mpi_bcast_(void *data, integer *count, integer *type, integer *root, integer *comm, integer *error)
{
    check_world(*comm);
    check_rcce(RCCE_bcast(data, (size_t)*count * bytes_of(*type), check_rank(*root), RCCE_COMM_WORLD), "RCCE_bcast");
    *error = 0;
}

void mpi_reduce_(void *data, void *result, integer *count, integer *type, integer *operation, integer *root, integer *comm,
                 integer *error)
{
    check_world(*comm);
    int outcome = RCCE_reduce(data, result, *count, rcce_type(*type), rcce_operation(*operation), check_rank(*root), RCCE_COMM_WORLD);
    check_rcce(outcome, "RCCE_reduce");
    *error = 0;
}

void mpi_allreduce_(void *data, void *result, integer *count, integer *type, integer *operation, integer *comm, integer *error)
{
    check_world(*comm);
    check_rcce(RCCE_allreduce(data, result, *count, rcce_type(*type), rcce_operation(*operation), RCCE_COMM_WORLD), "RCCE_allreduce");
    *error = 0;
}

void mpi_isend_(const void *data, integer *count, integer *type, integer *to, integer *tag, integer *comm, integer *request,
                integer *error)
{
    check_world(*comm);
    struct entry *entry = free_entry();
    start_send(entry, data, (size_t)*count * bytes_of(*type), check_rank(*to), *tag);
    *request = handle(entry);
    *error = 0;
}

void mpi_irecv_(void *room, integer *count, integer *type, integer *from, integer *tag, integer *comm, integer *request,
                integer *error)
{
    check_world(*comm);
    struct entry *entry = free_entry();
    start_receive(entry, room, (size_t)*count * bytes_of(*type), check_rank(*from), *tag);
    *request = handle(entry);
    *error = 0;
}

void mpi_send_(const void *data, integer *count, integer *type, integer *to, integer *tag, integer *comm, integer *error)
{
    integer request;
    mpi_isend_(data, count, type, to, tag, comm, &request, error);
    wait_for(&request, NULL);
}

void mpi_recv_(void *room, integer *count, integer *type, integer *from, integer *tag, integer *comm, integer *status, integer *error)
{
    integer request;
    mpi_irecv_(room, count, type, from, tag, comm, &request, error);
    wait_for(&request, status);
}

void mpi_wait_(integer *request, integer *status, integer *error)
{
    wait_for(request, status);
    *error = 0;
}

void mpi_waitall_(integer *count, integer *all, integer *statuses, integer *error)
{
    for (integer index = 0; index < *count; index++)
        wait_for(&all[index], &statuses[index * STATUS_SIZE]);
    *error = 0;
}

double mpi_wtime_(void)
{
    return RCCE_wtime();
}
