/* What `tombolo bench mpi` runs on every stack it compares: an unmodified MPI program that measures between rank 0 and rank 1,
 * and collectives over all ranks. Each figure is a line of JSON on standard output of rank 0:
 *
 *   {"metric": "latency", "bytes": 8, "p50": 123.4, "p99": 150.0, "samples": 1000}
 *
 * Units: ns for latency (one way), allreduce, bcast, barrier, put and get (each until it is complete); GB/s (10^9) for bandwidth,
 * put-bandwidth and get-bandwidth; messages a second for rate. In bandwidth, 64 messages are on their way at once and one buffer
 * is used again and again on either side, as such benchmarks do; no byte is looked at.
 *
 * usage: measure [--seconds S] [METRIC[:BYTES]]...      S: how long each figure takes (0.3); without metrics, all of them
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64, BATCH = 8, SAMPLES = 20000 };

static int rank, size;
static double seconds = 0.3;
static char *buffer, *other;
static double samples[SAMPLES];
static int taken;

static int by_value(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void report(const char *metric, size_t bytes, int higher_is_better) {
    if (rank != 0 || taken == 0) return;
    qsort(samples, (size_t)taken, sizeof *samples, by_value);
    /* The 99th percentile is of the bad ones. */
    int bad = higher_is_better ? taken / 100 : taken - 1 - taken / 100;
    printf("{\"metric\": \"%s\", \"bytes\": %zu, \"p50\": %.3f, \"p99\": %.3f, \"samples\": %d}\n", metric, bytes, samples[taken / 2],
           samples[bad], taken);
    fflush(stdout);
}

/* Whether there is time for another sample, as rank 0 says; the others learn of it by what `say` sends. */
static int more(double start, MPI_Comm all) {
    int go = rank == 0 && taken < SAMPLES && MPI_Wtime() - start < seconds;
    MPI_Bcast(&go, 1, MPI_INT, 0, all);
    return go;
}

static MPI_Comm pair; /* ranks 0 and 1 */

static void round_trips(size_t bytes, int count) {
    for (int i = 0; i < count; i++) {
        if (rank == 0) {
            MPI_Send(buffer, (int)bytes, MPI_BYTE, 1, 1, pair);
            MPI_Recv(buffer, (int)bytes, MPI_BYTE, 1, 1, pair, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, (int)bytes, MPI_BYTE, 0, 1, pair, MPI_STATUS_IGNORE);
            MPI_Send(buffer, (int)bytes, MPI_BYTE, 0, 1, pair);
        }
    }
}

static void latency(size_t bytes) {
    if (rank > 1) return;
    enum { ROUNDS = 64 };
    for (double start = MPI_Wtime(); more(start, pair);) {
        for (int i = 0; i < ROUNDS && taken < SAMPLES; i++) {
            double before = MPI_Wtime();
            round_trips(bytes, BATCH);
            samples[taken++] = (MPI_Wtime() - before) / BATCH / 2 * 1e9;
        }
    }
    report("latency", bytes, 0);
}

static double window_s(size_t bytes) {
    MPI_Request requests[WINDOW];
    char done;
    double before = MPI_Wtime();
    for (int i = 0; i < WINDOW; i++) {
        if (rank == 0) {
            MPI_Isend(buffer, (int)bytes, MPI_BYTE, 1, 2, pair, &requests[i]);
        } else {
            MPI_Irecv(buffer, (int)bytes, MPI_BYTE, 0, 2, pair, &requests[i]);
        }
    }
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    if (rank == 0) {
        MPI_Recv(&done, 1, MPI_BYTE, 1, 3, pair, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(buffer, 1, MPI_BYTE, 0, 3, pair);
    }
    return MPI_Wtime() - before;
}

static void stream(size_t bytes, int as_rate) {
    if (rank > 1) return;
    int batches = bytes < 4096 ? 64 : 1;
    window_s(bytes);
    for (double start = MPI_Wtime(); more(start, pair);) {
        for (int i = 0; i < batches && taken < SAMPLES; i++) {
            double elapsed_s = window_s(bytes);
            samples[taken++] = as_rate ? WINDOW / elapsed_s : (double)bytes * WINDOW / elapsed_s / 1e9;
        }
    }
    report(as_rate ? "rate" : "bandwidth", bytes, 1);
}

static void bandwidth(size_t bytes) { stream(bytes, 0); }
static void rate(size_t bytes) { stream(bytes, 1); }

enum collective { ALLREDUCE, BCAST, BARRIER };

static void collective(enum collective which, const char *name, size_t bytes) {
    int doubles = (int)(bytes / sizeof(double)), batches = bytes < 65536 ? 32 : 1;
    for (double start = MPI_Wtime(); more(start, MPI_COMM_WORLD);) {
        for (int i = 0; i < batches && taken < SAMPLES; i++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double before = MPI_Wtime();
            for (int k = 0; k < BATCH; k++) {
                if (which == ALLREDUCE) MPI_Allreduce(buffer, other, doubles, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
                if (which == BCAST) MPI_Bcast(buffer, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
                if (which == BARRIER) MPI_Barrier(MPI_COMM_WORLD);
            }
            /* A root may be done before anybody has anything: until the last has it. */
            double own = (MPI_Wtime() - before) / BATCH * 1e9, slowest;
            MPI_Reduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
            if (rank == 0) samples[taken++] = slowest;
            else taken++;
        }
    }
    report(name, bytes, 0);
}

static void allreduce(size_t bytes) { collective(ALLREDUCE, "allreduce", bytes); }
static void bcast(size_t bytes) { collective(BCAST, "bcast", bytes); }
static void barrier(size_t bytes) { (void)bytes, collective(BARRIER, "barrier", 0); }

/* Rank 0 reaches into the memory of rank 1, which does nothing but what its MPI takes to make progress. */
static void one_sided(const char *name, size_t bytes, int get, int windowed) {
    if (rank > 1) return;
    MPI_Win window;
    char *memory;
    MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, pair, &memory, &window);
    memset(memory, 1, bytes);
    MPI_Win_lock_all(0, window);
    for (double start = MPI_Wtime(); more(start, pair);) {
        for (int i = 0; rank == 0 && i < 16 && taken < SAMPLES; i++) {
            int count = windowed ? WINDOW : BATCH;
            double before = MPI_Wtime();
            for (int k = 0; k < count; k++) {
                if (get) MPI_Get(buffer, (int)bytes, MPI_BYTE, 1, 0, (int)bytes, MPI_BYTE, window);
                else MPI_Put(buffer, (int)bytes, MPI_BYTE, 1, 0, (int)bytes, MPI_BYTE, window);
                if (!windowed) MPI_Win_flush(1, window);
            }
            if (windowed) MPI_Win_flush(1, window);
            double elapsed_s = MPI_Wtime() - before;
            samples[taken++] = windowed ? (double)bytes * count / elapsed_s / 1e9 : elapsed_s / count * 1e9;
        }
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    report(name, bytes, windowed);
}

static void put(size_t bytes) { one_sided("put", bytes, 0, 0); }
static void get(size_t bytes) { one_sided("get", bytes, 1, 0); }
static void put_bandwidth(size_t bytes) { one_sided("put-bandwidth", bytes, 0, 1); }
static void get_bandwidth(size_t bytes) { one_sided("get-bandwidth", bytes, 1, 1); }

static const struct {
    const char *name;
    void (*run)(size_t bytes);
    size_t lengths[4];
} metrics[] = {
    {"latency", latency, {8, 1024, 65536, 0}},
    {"bandwidth", bandwidth, {4096, 65536, 4 << 20, 0}},
    {"rate", rate, {8, 0}},
    {"allreduce", allreduce, {8, 65536, 1 << 20, 0}},
    {"bcast", bcast, {8, 65536, 1 << 20, 0}},
    {"barrier", barrier, {1, 0}},
    {"put", put, {8, 65536, 0}},
    {"get", get, {8, 65536, 0}},
    {"put-bandwidth", put_bandwidth, {65536, 4 << 20, 0}},
    {"get-bandwidth", get_bandwidth, {65536, 4 << 20, 0}},
};
enum { METRICS = sizeof metrics / sizeof *metrics, LONGEST = 4 << 20 };

static void fail(const char *problem, const char *what) {
    if (rank == 0) fprintf(stderr, "measure: %s%s\n", problem, what);
    MPI_Finalize();
    exit(2);
}

static void measure(int metric, size_t bytes) {
    taken = 0;
    metrics[metric].run(bytes);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void measure_named(const char *word) {
    const char *colon = strchr(word, ':');
    size_t length = colon ? (size_t)(colon - word) : strlen(word);
    size_t bytes = colon ? strtoull(colon + 1, NULL, 10) : 0;
    if (colon && (bytes == 0 || bytes > LONGEST)) fail("from 1 byte to 4 MiB: ", word);
    for (int i = 0; i < METRICS; i++) {
        if (strlen(metrics[i].name) != length || strncmp(metrics[i].name, word, length)) continue;
        if (bytes) measure(i, bytes);
        for (int k = 0; !bytes && metrics[i].lengths[k]; k++) measure(i, metrics[i].lengths[k]);
        return;
    }
    fail("no such metric: ", word);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2) fail("start two ranks or more: the measurements are between two", "");
    buffer = malloc(LONGEST);
    other = malloc(LONGEST);
    if (!buffer || !other) fail("no memory", "");
    memset(buffer, 0, LONGEST);
    memset(other, 0, LONGEST);
    MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : MPI_UNDEFINED, rank, &pair);
    int named = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seconds")) {
            seconds = i + 1 < argc ? atof(argv[++i]) : 0;
            if (!(seconds > 0 && seconds <= 60)) fail("--seconds takes a number up to 60", "");
        } else {
            measure_named(argv[i]);
            named = 1;
        }
    }
    for (int i = 0; !named && i < METRICS; i++) measure_named(metrics[i].name);
    if (pair != MPI_COMM_NULL) MPI_Comm_free(&pair);
    free(buffer);
    free(other);
    MPI_Finalize();
    return 0;
}
