/* Every rank sends to every other at once, so that each pair connects, many of them from both sides. */
#include "check.h"

int main(int count, char **words)
{
    enum { LENGTH = 100, ROUNDS = 3 };
    begin(&count, &words);
    unsigned char *sent = memory((size_t)size * LENGTH), *received = memory((size_t)size * LENGTH);
    MPI_Request *requests = memory(2 * (size_t)size * sizeof *requests);
    for (int round = 0; round < ROUNDS; round++) {
        for (int step = 0; step < size; step++) {
            int to = (rank + step) % size, from = (rank + size - step) % size;
            fill(sent + to * LENGTH, LENGTH, rank, to, round);
            MPI_Irecv(received + from * LENGTH, LENGTH, MPI_BYTE, from, round, MPI_COMM_WORLD, &requests[step]);
            MPI_Isend(sent + to * LENGTH, LENGTH, MPI_BYTE, to, round, MPI_COMM_WORLD, &requests[size + step]);
        }
        MPI_Waitall(2 * size, requests, MPI_STATUSES_IGNORE);
        for (int from = 0; from < size; from++)
            check_bytes(received + from * LENGTH, LENGTH, from, rank, round);
    }
    free(requests);
    free(sent);
    free(received);
    return end("everyone");
}
