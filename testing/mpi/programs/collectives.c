/* Collective operations, compared with what each rank computes by itself. */
#include "check.h"

#define MOST 20000

static int *sent, *received;

/* What rank `of` has at a place. */
static int value(int of, int at) { return of * 1000003 + at * 7 - 12345; }

static int sum(int ranks, int at)
{
    int total = 0;
    for (int of = 0; of < ranks; of++)
        total += value(of, at);
    return total;
}

static void set(int count)
{
    for (int at = 0; at < count; at++)
        sent[at] = value(rank, at);
    memset(received, 0xee, (size_t)count * (size_t)size * sizeof *received);
}

static void rooted(int count, int root)
{
    set(count);
    if (rank == root)
        memcpy(received, sent, (size_t)count * sizeof *sent);
    MPI_Bcast(received, count, MPI_INT, root, MPI_COMM_WORLD);
    for (int at = 0; at < count; at++)
        CHECK(received[at] == value(root, at), "bcast of %d from %d, %d", count, root, at);

    set(count);
    MPI_Reduce(sent, received, count, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
    for (int at = 0; rank == root && at < count; at++)
        CHECK(received[at] == sum(size, at), "reduce of %d to %d, %d", count, root, at);

    set(count);
    MPI_Gather(sent, count, MPI_INT, received, count, MPI_INT, root, MPI_COMM_WORLD);
    for (int at = 0; rank == root && at < count * size; at++)
        CHECK(received[at] == value(at / count, at % count), "gather of %d, %d", count, at);

    /* Back again, from what was gathered. */
    MPI_Scatter(received, count, MPI_INT, sent, count, MPI_INT, root, MPI_COMM_WORLD);
    for (int at = 0; at < count; at++)
        CHECK(sent[at] == value(rank, at), "scatter of %d, %d", count, at);
}

static void of_all(int count)
{
    set(count);
    MPI_Allreduce(sent, received, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int at = 0; at < count; at++)
        CHECK(received[at] == sum(size, at), "allreduce of %d, %d", count, at);

    set(count);
    MPI_Allgather(sent, count, MPI_INT, received, count, MPI_INT, MPI_COMM_WORLD);
    for (int at = 0; at < count * size; at++)
        CHECK(received[at] == value(at / count, at % count), "allgather of %d, %d", count, at);

    set(count);
    MPI_Scan(sent, received, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int at = 0; at < count; at++)
        CHECK(received[at] == sum(rank + 1, at), "scan of %d, %d", count, at);

    set(count);
    MPI_Exscan(sent, received, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int at = 0; rank > 0 && at < count; at++)
        CHECK(received[at] == sum(rank, at), "exscan of %d, %d", count, at);

    int each = count / size;
    set(each * size);
    MPI_Reduce_scatter_block(sent, received, each, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int at = 0; at < each; at++)
        CHECK(received[at] == sum(size, rank * each + at), "reduce_scatter of %d, %d", each, at);

    set(each * size);
    MPI_Alltoall(sent, each, MPI_INT, received, each, MPI_INT, MPI_COMM_WORLD);
    for (int at = 0; at < each * size; at++)
        CHECK(received[at] == value(at / each, rank * each + at % each), "alltoall of %d, %d", each, at);

    /* All in flight before the first is waited for. */
    MPI_Request requests[3];
    int *third = received + MOST;
    set(count);
    double doubles[2] = {rank + 0.5, -rank}, most[2];
    MPI_Iallreduce(sent, received, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &requests[0]);
    MPI_Iallreduce(doubles, most, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &requests[1]);
    third[0] = rank == size - 1 ? 77 : 0;
    MPI_Ibcast(third, 1, MPI_INT, size - 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    CHECK(most[0] == size - 0.5 && most[1] == 0 && third[0] == 77, "%g %g %d", most[0], most[1], third[0]);
    for (int at = 0; at < count; at++)
        CHECK(received[at] == value(size - 1, at), "iallreduce of %d, %d", count, at);
}

/* As much for each as its rank, plus one. */
static void of_unlike_parts(void)
{
    int *counts = memory((size_t)size * sizeof *counts), *places = memory((size_t)size * sizeof *places), total = 0;
    for (int of = 0; of < size; of++) {
        counts[of] = (of + 1) * 11;
        places[of] = total;
        total += counts[of];
    }
    set(total);
    MPI_Allgatherv(sent, counts[rank], MPI_INT, received, counts, places, MPI_INT, MPI_COMM_WORLD);
    for (int of = 0; of < size; of++)
        for (int at = 0; at < counts[of]; at++)
            CHECK(received[places[of] + at] == value(of, at), "allgatherv, %d of %d", at, of);
    free(counts);
    free(places);
}

static void of_parts_of_the_world(void)
{
    MPI_Comm half;
    int mine, members, total;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_rank(half, &mine);
    MPI_Comm_size(half, &members);
    MPI_Allreduce(&rank, &total, 1, MPI_INT, MPI_SUM, half);
    int wanted = 0, place = 0;
    for (int of = rank % 2; of < size; of += 2) {
        wanted += of;
        place += of > rank;
    }
    CHECK(total == wanted && mine == place, "%d, and %d of %d", total, mine, members);
    MPI_Barrier(half);
    MPI_Comm_free(&half);
}

int main(int count, char **words)
{
    static const int counts[] = {1, 16, 1000, MOST};
    begin(&count, &words);
    sent = memory((size_t)MOST * (size_t)(size + 1) * sizeof *sent);
    received = memory((size_t)MOST * (size_t)(size + 2) * sizeof *received);
    for (int index = 0; index < 4; index++) {
        rooted(counts[index], 0);
        rooted(counts[index], size - 1);
        if (counts[index] >= size)
            of_all(counts[index]);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    of_unlike_parts();
    of_parts_of_the_world();
    free(sent);
    free(received);
    return end("collectives");
}
