/* A token goes round, in messages of many lengths: what is sent in one piece, in several, and from memory. */
#include "check.h"

int main(int count, char **words)
{
    static const size_t lengths[] = {0, 1, 7, 64, 65, 1000, 4096, 4097, 16384, 65536, 65537, 1 << 20};
    begin(&count, &words);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (size_t index = 0; index < sizeof lengths / sizeof *lengths; index++) {
        size_t length = lengths[index];
        int tag = (int)index;
        unsigned char *sent = memory(length), *received = memory(length);
        for (int round = 0; round < 3; round++) {
            MPI_Status status;
            int got;
            fill(sent, length, rank, next, tag);
            memset(received, 0xee, length);
            if (rank == 0) {
                /* Alone it is its own neighbour. */
                MPI_Request request;
                MPI_Isend(sent, (int)length, MPI_BYTE, next, tag, MPI_COMM_WORLD, &request);
                MPI_Recv(received, (int)length, MPI_BYTE, before, tag, MPI_COMM_WORLD, &status);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            } else {
                MPI_Recv(received, (int)length, MPI_BYTE, before, tag, MPI_COMM_WORLD, &status);
                MPI_Send(sent, (int)length, MPI_BYTE, next, tag, MPI_COMM_WORLD);
            }
            MPI_Get_count(&status, MPI_BYTE, &got);
            CHECK(got == (int)length && status.MPI_SOURCE == before && status.MPI_TAG == tag, "%d bytes of %d", got,
                  status.MPI_SOURCE);
            check_bytes(received, length, before, rank, tag);
        }
        free(sent);
        free(received);
    }
    return end("ring");
}
