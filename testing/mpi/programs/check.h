/* What the programs here share: each checks itself, and rank 0 prints one line when all of it was right. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

/* Ends the job with what was wrong. */
#define CHECK(condition, ...)                                                                  \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "rank %d, %s:%d: not so: %s: ", rank, __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                                                      \
            fputc('\n', stderr);                                                               \
            MPI_Abort(MPI_COMM_WORLD, 3);                                                      \
        }                                                                                      \
    } while (0)

static inline void begin(int *count, char ***words)
{
    MPI_Init(count, words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

static inline int end(const char *name)
{
    /* Whose checks came to an end, counted where everybody hears of it. */
    int one = 1, all = 0;
    MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all == size, "%d of %d", all, size);
    if (rank == 0)
        printf("%s: right on %d ranks\n", name, size);
    return MPI_Finalize();
}

/* The byte at a place of a message between two ranks. */
static inline unsigned char byte_of(int from, int to, int tag, size_t at)
{
    return (unsigned char)(from * 31 + to * 17 + tag * 7 + at * 13 + (at >> 8));
}

static inline void fill(unsigned char *bytes, size_t length, int from, int to, int tag)
{
    for (size_t at = 0; at < length; at++)
        bytes[at] = byte_of(from, to, tag, at);
}

static inline void check_bytes(const unsigned char *bytes, size_t length, int from, int to, int tag)
{
    for (size_t at = 0; at < length; at++)
        CHECK(bytes[at] == byte_of(from, to, tag, at), "byte %zu of %zu from %d to %d with tag %d is %d", at, length, from, to, tag,
              bytes[at]);
}

static inline void *memory(size_t length)
{
    void *bytes = malloc(length > 0 ? length : 1);
    CHECK(bytes != NULL, "no memory for %zu bytes", length);
    return bytes;
}

#endif
