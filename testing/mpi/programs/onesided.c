/* Memory that others write and read: put, get, accumulate, atomic operations, with every kind of synchronisation. */
#include "check.h"

#include <stdint.h>

#define COUNT 5000

static void fences(void)
{
    MPI_Win window;
    int64_t *mine;
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Win_allocate(COUNT * sizeof *mine, sizeof *mine, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &window);
    int64_t *other = memory(COUNT * sizeof *other);
    for (int at = 0; at < COUNT; at++) {
        mine[at] = -1;
        other[at] = ((int64_t)rank << 32) + at;
    }
    MPI_Win_fence(0, window);
    MPI_Put(other, COUNT, MPI_INT64_T, next, 0, COUNT, MPI_INT64_T, window);
    MPI_Win_fence(0, window);
    for (int at = 0; at < COUNT; at++)
        CHECK(mine[at] == ((int64_t)before << 32) + at, "put, %d", at);
    MPI_Win_fence(0, window);
    /* Half of it, from the middle. */
    MPI_Get(other, COUNT / 2, MPI_INT64_T, next, COUNT / 4, COUNT / 2, MPI_INT64_T, window);
    MPI_Win_fence(0, window);
    for (int at = 0; at < COUNT / 2; at++)
        CHECK(other[at] == ((int64_t)rank << 32) + COUNT / 4 + at, "get, %d", at);
    for (int at = 0; at < COUNT; at++)
        mine[at] = 0;
    for (int at = 0; at < COUNT; at++)
        other[at] = rank + at;
    MPI_Win_fence(0, window);
    for (int to = 0; to < size; to++)
        MPI_Accumulate(other, COUNT, MPI_INT64_T, to, 0, COUNT, MPI_INT64_T, MPI_SUM, window);
    MPI_Win_fence(0, window);
    for (int at = 0; at < COUNT; at++)
        CHECK(mine[at] == (int64_t)size * at + size * (size - 1) / 2, "accumulate, %d", at);
    MPI_Win_free(&window);
    free(other);
}

static void locks(void)
{
    enum { ROUNDS = 100 };
    int64_t memory_of_mine[3] = {0, 0, 0};
    MPI_Win window;
    MPI_Win_create(memory_of_mine, sizeof memory_of_mine, sizeof *memory_of_mine, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    /* No update is lost: every ticket number is drawn once. */
    int64_t one = 1, drawn, last = -1;
    MPI_Win_lock_all(0, window);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Fetch_and_op(&one, &drawn, MPI_INT64_T, 0, 0, MPI_SUM, window);
        MPI_Win_flush(0, window);
        CHECK(drawn > last && drawn < (int64_t)size * ROUNDS, "ticket %lld after %lld", (long long)drawn, (long long)last);
        last = drawn;
    }
    /* The first who finds it free has it. */
    int64_t nobody = 0, me = rank + 1, found;
    MPI_Compare_and_swap(&me, &nobody, &found, MPI_INT64_T, 0, 1, window);
    MPI_Win_flush(0, window);
    int won = found == 0, winners;
    MPI_Win_unlock_all(window);
    MPI_Allreduce(&won, &winners, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(winners == 1, "%d have it", winners);
    /* Read, add and write under an exclusive lock. */
    for (int round = 0; round < 20; round++) {
        int64_t value;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Get(&value, 1, MPI_INT64_T, 0, 2, 1, MPI_INT64_T, window);
        MPI_Win_flush(0, window);
        value += rank + 1;
        MPI_Put(&value, 1, MPI_INT64_T, 0, 2, 1, MPI_INT64_T, window);
        MPI_Win_unlock(0, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        CHECK(memory_of_mine[0] == (int64_t)size * ROUNDS, "%lld tickets", (long long)memory_of_mine[0]);
        CHECK(memory_of_mine[2] == 20LL * size * (size + 1) / 2, "%lld", (long long)memory_of_mine[2]);
        MPI_Win_unlock(0, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&window);
}

/* Rank 0 shows its memory to the others, who write each their part. */
static void posts(void)
{
    int *mine = memory((size_t)size * sizeof *mine), number = rank * rank + 1;
    MPI_Win window;
    MPI_Group world, others;
    memset(mine, 0, (size_t)size * sizeof *mine);
    MPI_Win_create(mine, (MPI_Aint)((size_t)size * sizeof *mine), sizeof *mine, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    if (rank == 0)
        MPI_Group_excl(world, 1, &rank, &others);
    else
        MPI_Group_incl(world, 1, (int[]){0}, &others);
    if (rank == 0) {
        MPI_Win_post(others, 0, window);
        MPI_Win_wait(window);
        for (int of = 1; of < size; of++)
            CHECK(mine[of] == of * of + 1, "part of %d is %d", of, mine[of]);
    } else {
        MPI_Win_start(others, 0, window);
        MPI_Put(&number, 1, MPI_INT, 0, rank, 1, MPI_INT, window);
        MPI_Win_complete(window);
    }
    MPI_Group_free(&others);
    MPI_Group_free(&world);
    MPI_Win_free(&window);
    free(mine);
}

/* Windows over parts of one memory, one after another: some of it was in a window before, some not. */
static void overlaps(void)
{
    enum { WHOLE = 1 << 20 };
    const struct { size_t start, length; } parts[] = {{70001, 3}, {60000, 40000}, {0, 50}, {4096, 65536}, {0, WHOLE}};
    char *mine = memory(WHOLE), *bytes = memory(WHOLE);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) {
        size_t length = parts[part].length;
        char *start = mine + parts[part].start;
        MPI_Win window;
        memset(start, (int)part + 1, length);
        MPI_Win_create(start, (MPI_Aint)length, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        MPI_Win_lock_all(0, window);
        for (int round = 0; round < 3; round++) {
            /* The first asks whether the memory can be reached; the others may do it by themselves. */
            memset(bytes, 0, length);
            MPI_Get(bytes, (int)length, MPI_BYTE, next, 0, (int)length, MPI_BYTE, window);
            MPI_Win_flush(next, window);
            for (size_t at = 0; at < length; at++)
                CHECK(bytes[at] == (char)(part + 1), "get of part %zu, round %d, byte %zu: %d", part, round, at, bytes[at]);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        for (size_t at = 0; at < length; at++)
            bytes[at] = (char)(at * 7 + (size_t)rank);
        MPI_Put(bytes, (int)length, MPI_BYTE, next, 0, (int)length, MPI_BYTE, window);
        MPI_Win_unlock_all(window);
        MPI_Win_free(&window);
        for (size_t at = 0; at < length; at++)
            CHECK(start[at] == (char)(at * 7 + (size_t)before), "put into part %zu, byte %zu: %d", part, at, start[at]);
    }
    free(bytes);
    free(mine);
}

int main(int count, char **words)
{
    begin(&count, &words);
    fences();
    locks();
    if (size > 1)
        posts();
    overlaps();
    return end("onesided");
}
