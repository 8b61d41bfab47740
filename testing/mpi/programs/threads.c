/* Several threads of each rank talk at the same time, each with its fellows on the other ranks. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 50, MOST = 20000 };

static MPI_Comm fellows[THREADS];

static void *talk(void *of)
{
    int thread = *(int *)of, next = (rank + 1) % size, before = (rank + size - 1) % size;
    unsigned char *sent = memory(MOST), *received = memory(MOST);
    for (int round = 0; round < ROUNDS; round++) {
        /* The world's messages are told apart by tags, the others by their communicator. */
        MPI_Comm comm = round % 2 == 0 ? fellows[thread] : MPI_COMM_WORLD;
        int length = 1 + (round * 397 + thread * 31) % MOST, tag = thread + 1, got;
        MPI_Status status;
        fill(sent, (size_t)length, rank, next, tag + round);
        MPI_Sendrecv(sent, length, MPI_BYTE, next, tag, received, MOST, MPI_BYTE, before, tag, comm, &status);
        MPI_Get_count(&status, MPI_BYTE, &got);
        CHECK(got == length, "%d bytes, not %d, thread %d", got, length, thread);
        check_bytes(received, (size_t)got, before, rank, tag + round);
    }
    int total = 0;
    MPI_Allreduce(&thread, &total, 1, MPI_INT, MPI_SUM, fellows[thread]);
    CHECK(total == thread * size, "%d", total);
    free(sent);
    free(received);
    return NULL;
}

int main(int count, char **words)
{
    int level, numbers[THREADS];
    pthread_t threads[THREADS];
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(level == MPI_THREAD_MULTIPLE, "level %d", level);
    for (int thread = 0; thread < THREADS; thread++)
        MPI_Comm_dup(MPI_COMM_WORLD, &fellows[thread]);
    for (int thread = 0; thread < THREADS; thread++) {
        numbers[thread] = thread;
        int failed = pthread_create(&threads[thread], NULL, talk, &numbers[thread]);
        CHECK(failed == 0, "thread %d does not start: %d", thread, failed);
    }
    for (int thread = 0; thread < THREADS; thread++)
        pthread_join(threads[thread], NULL);
    for (int thread = 0; thread < THREADS; thread++)
        MPI_Comm_free(&fellows[thread]);
    return end("threads");
}
