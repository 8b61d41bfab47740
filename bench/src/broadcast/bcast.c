/* A trial of `tombolo bench broadcast` over MPI. Arguments: bytes of a message, messages of each source, sources,
   1 for paced. Each rank prints one line of JSON. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    if (count != 5) {
        fprintf(stderr, "four numbers are needed\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int bytes = atoi(words[1]), messages = atoi(words[2]), sources = atoi(words[3]), paced = atoi(words[4]);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *message = calloc(1, (size_t)bytes);
    uint64_t *times = calloc((size_t)messages, sizeof *times);
    char *line = malloc((size_t)messages * 22 + 100);
    if (message == NULL || times == NULL || line == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t begin = now_ns();
    for (int turn = 0; turn < messages * sources; turn++) {
        int root = turn % sources;
        if (paced) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
        if (rank == root) {
            uint64_t sent;
            if (paced) {
                nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
            }
            sent = now_ns();
            memcpy(message, &sent, sizeof sent);
        }
        MPI_Bcast(message, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
        if (paced) {
            uint64_t sent;
            memcpy(&sent, message, sizeof sent);
            times[turn] = now_ns() - sent;
        }
    }
    uint64_t span = now_ns() - begin;
    int length = 0;
    if (paced) {
        length = sprintf(line, "{\"metric\":\"times\",\"times_ns\":[");
        for (int turn = 0; turn < messages && rank != 0; turn++) {
            length += sprintf(line + length, "%s%llu", turn ? "," : "", (unsigned long long)times[turn]);
        }
        length += sprintf(line + length, "]}\n");
    } else {
        length = sprintf(line, "{\"metric\":\"span\",\"span_ns\":%llu}\n", (unsigned long long)span);
    }
    /* One after another, so that lines stay whole. */
    for (int turn = 0; turn < size; turn++) {
        if (turn == rank) {
            fwrite(line, 1, (size_t)length, stdout);
            fflush(stdout);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
