/* Messages of megabytes, from all ranks to all ranks simultaneously, expected and unexpected. */
#include "check.h"

enum { MEBIBYTE = 1 << 20 };

static void expected(size_t length)
{
    MPI_Request *requests = memory(2 * (size_t)size * sizeof *requests);
    unsigned char *sent = memory(length * (size_t)size), *received = memory(length * (size_t)size);
    memset(received, 0, length * (size_t)size);
    for (int of = 0; of < size; of++)
        MPI_Irecv(received + (size_t)of * length, (int)length, MPI_BYTE, of, 1, MPI_COMM_WORLD, &requests[of]);
    for (int to = 0; to < size; to++) {
        fill(sent + (size_t)to * length, length, rank, to, 1);
        MPI_Isend(sent + (size_t)to * length, (int)length, MPI_BYTE, to, 1, MPI_COMM_WORLD, &requests[size + to]);
    }
    MPI_Waitall(2 * size, requests, MPI_STATUSES_IGNORE);
    for (int of = 0; of < size; of++)
        check_bytes(received + (size_t)of * length, length, of, rank, 1);
    free(requests);
    free(sent);
    free(received);
}

/* Sent long before they are asked for, and asked for in another order. */
static void unexpected(size_t length)
{
    enum { COUNT = 4 };
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Request requests[COUNT];
    unsigned char *sent = memory(COUNT * length), *received = memory(length);
    for (int tag = 0; tag < COUNT; tag++) {
        fill(sent + (size_t)tag * length, length, rank, next, tag);
        MPI_Isend(sent + (size_t)tag * length, (int)length, MPI_BYTE, next, tag, MPI_COMM_WORLD, &requests[tag]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int tag = COUNT - 1; tag >= 0; tag--) {
        MPI_Recv(received, (int)length, MPI_BYTE, before, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check_bytes(received, length, before, rank, tag);
    }
    MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE);
    free(sent);
    free(received);
}

int main(int count, char **words)
{
    begin(&count, &words);
    expected(MEBIBYTE + 1);
    expected(4 * MEBIBYTE);
    unexpected(MEBIBYTE - 3);
    if (rank < 2 && size > 1) {
        /* One of sixteen, there and back. */
        size_t length = 16 * MEBIBYTE;
        unsigned char *bytes = memory(length);
        int other = 1 - rank;
        if (rank == 0) {
            fill(bytes, length, 0, 1, 5);
            MPI_Send(bytes, (int)length, MPI_BYTE, other, 5, MPI_COMM_WORLD);
            memset(bytes, 0, length);
            MPI_Recv(bytes, (int)length, MPI_BYTE, other, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            check_bytes(bytes, length, 1, 0, 6);
        } else {
            MPI_Recv(bytes, (int)length, MPI_BYTE, other, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            check_bytes(bytes, length, 0, 1, 5);
            fill(bytes, length, 1, 0, 6);
            MPI_Send(bytes, (int)length, MPI_BYTE, other, 6, MPI_COMM_WORLD);
        }
        free(bytes);
    }
    return end("large");
}
