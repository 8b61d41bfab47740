/* Which receive a message goes to: order, wildcards, probes, cancelling, what is too long, and all kinds of send. */
#include "check.h"

enum { ORDER = 10, ANY, PROBED, CLAIMED, SHORT, CANCELLED, SYNCHRONOUS, BUFFERED, PERSISTENT, LATE };

/* Messages of one sender and tag come in order, whatever their length. */
static void order(int next, int before)
{
    enum { COUNT = 60 };
    MPI_Request requests[COUNT];
    static int sent[COUNT][30000], received[30000];
    for (int i = 0; i < COUNT; i++) {
        sent[i][0] = i;
        MPI_Isend(sent[i], i % 3 == 0 ? 30000 : 1 + i, MPI_INT, next, ORDER, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        MPI_Status status;
        int got;
        MPI_Recv(received, 30000, MPI_INT, before, ORDER, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT, &got);
        CHECK(received[0] == i && got == (i % 3 == 0 ? 30000 : 1 + i), "the %dth is %d with %d", i, received[0], got);
    }
    MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE);
}

/* All ranks write to rank 0, which receives from any source. */
static void wildcards(void)
{
    int number = rank + 100;
    if (rank != 0) {
        MPI_Send(&number, 1, MPI_INT, 0, ANY + rank * 100, MPI_COMM_WORLD);
        return;
    }
    char *seen = memory((size_t)size);
    memset(seen, 0, (size_t)size);
    for (int i = 1; i < size; i++) {
        MPI_Status status;
        MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        int of = status.MPI_SOURCE;
        CHECK(of > 0 && of < size && !seen[of] && number == of + 100 && status.MPI_TAG == ANY + of * 100, "%d of %d", number, of);
        seen[of] = 1;
    }
    free(seen);
}

static void probes(int next, int before)
{
    int numbers[500], got = 0, flag = 0;
    MPI_Status status;
    MPI_Message message;
    MPI_Request requests[2];
    for (int i = 0; i < 500; i++)
        numbers[i] = rank + i;
    MPI_Iprobe(before, LATE, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag, "nobody has sent that");
    MPI_Isend(numbers, 500, MPI_INT, next, PROBED, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(numbers, 250, MPI_INT, next, CLAIMED, MPI_COMM_WORLD, &requests[1]);
    int received[500];
    /* The later one first, taken out so that no other receive finds it. */
    MPI_Mprobe(before, CLAIMED, MPI_COMM_WORLD, &message, &status);
    MPI_Get_count(&status, MPI_INT, &got);
    CHECK(got == 250, "%d claimed", got);
    MPI_Iprobe(before, CLAIMED, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag, "it has been claimed");
    MPI_Mrecv(received, got, MPI_INT, &message, &status);
    CHECK(received[249] == before + 249, "%d", received[249]);
    MPI_Probe(before, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &got);
    CHECK(got == 500 && status.MPI_TAG == PROBED, "%d probed with tag %d", got, status.MPI_TAG);
    MPI_Recv(received, got, MPI_INT, before, PROBED, MPI_COMM_WORLD, &status);
    CHECK(received[499] == before + 499, "%d", received[499]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

/* A receive that nothing comes for is taken back, and what comes later goes to another. */
static void cancelling(int next, int before)
{
    int number = 0, cancelled = 0, later = 0, sent = rank;
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(&number, 1, MPI_INT, before, CANCELLED, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(cancelled, "nothing had come");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Sendrecv(&sent, 1, MPI_INT, next, CANCELLED, &later, 1, MPI_INT, before, CANCELLED, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(later == before && number == 0, "%d, and %d where nothing should be", later, number);
}

static void too_long(int next, int before)
{
    int sent[100] = {7}, received[10], class;
    MPI_Request request;
    MPI_Comm world;
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Isend(sent, 100, MPI_INT, next, SHORT, world, &request);
    int result = MPI_Recv(received, 10, MPI_INT, before, SHORT, world, MPI_STATUS_IGNORE);
    MPI_Error_class(result, &class);
    CHECK(class == MPI_ERR_TRUNCATE, "class %d", class);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&world);
}

static void kinds_of_send(int next, int before)
{
    int number = rank * 3, received;
    MPI_Request request;
    MPI_Irecv(&received, 1, MPI_INT, before, SYNCHRONOUS, MPI_COMM_WORLD, &request);
    MPI_Ssend(&number, 1, MPI_INT, next, SYNCHRONOUS, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(received == before * 3, "%d", received);

    int length = MPI_BSEND_OVERHEAD + 100;
    void *room = memory((size_t)length);
    MPI_Buffer_attach(room, length);
    MPI_Bsend(&number, 1, MPI_INT, next, BUFFERED, MPI_COMM_WORLD);
    MPI_Recv(&received, 1, MPI_INT, before, BUFFERED, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(received == before * 3, "%d", received);
    MPI_Buffer_detach(&room, &length);
    free(room);

    MPI_Request both[2];
    MPI_Send_init(&number, 1, MPI_INT, next, PERSISTENT, MPI_COMM_WORLD, &both[0]);
    MPI_Recv_init(&received, 1, MPI_INT, before, PERSISTENT, MPI_COMM_WORLD, &both[1]);
    for (int round = 0; round < 50; round++) {
        number = rank + round;
        MPI_Startall(2, both);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        CHECK(received == before + round, "%d in round %d", received, round);
    }
    MPI_Request_free(&both[0]);
    MPI_Request_free(&both[1]);
}

int main(int count, char **words)
{
    begin(&count, &words);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    order(next, before);
    MPI_Barrier(MPI_COMM_WORLD);
    wildcards();
    MPI_Barrier(MPI_COMM_WORLD);
    probes(next, before);
    cancelling(next, before);
    too_long(next, before);
    kinds_of_send(next, before);
    return end("matching");
}
