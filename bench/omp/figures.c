/* The figures of chapter 7 of the thesis on Barrelfish's OpenMP (Achermann 2014), one line for each: see measure.h.
 *
 *   start WHEN        7.1: from WHEN, which is CLOCK_MONOTONIC in nanoseconds before this program was started, to main; then the first
 *                     region, for which workers are made
 *   sharing           7.2: memory that the master has written, until all workers have read a word of each of its pages
 *   regions           7.3: an empty region: one after the other, and after a pause in which workers fall asleep
 *   matmul            7.4, 7.5: C = A * B of 1500 x 1500 64-bit integers, by rows
 *
 * usage: figures [--repeat COUNT] [--size N] SECTION [WHEN]
 */
#include <omp.h>
#include <stdint.h>
#include <string.h>

#include "measure.h"

enum { PAGE = 4096, PAUSE_MS = 20, WARM_US = 100000, MOST = 256 };

static int repeat = 5;
static long size = 1500;
static int threads;

/* The region that is measured. The asm hides from the compiler that its body is empty. */
static void empty_region(void) {
#pragma omp parallel
    __asm__ volatile("" : : : "memory");
}

/* --- 7.1 --------------------------------------------------------------------------------------------- */

static void start(double began) {
    double in_main = now();
    empty_region();
    double done = now();
    take(in_main - began);
    report("from start to main", threads);
    take(done - in_main);
    report("first region", threads);
}

/* --- 7.2 --------------------------------------------------------------------------------------------- */

/* If the run-time has them: memory that is only read, of which nodes get copies of their own, and the end of that. As in tombolo_omp.h. */
extern int tombolo_omp_replicate(const void *begin, size_t bytes) __attribute__((weak));
extern int tombolo_omp_restore(const void *begin, size_t bytes) __attribute__((weak));

static void not_replicated(const char *metric) {
    printf("{\"metric\": \"%s, replicated\", \"threads\": %d, \"skipped\": \"the run-time has no tombolo_omp_replicate\"}\n", metric,
           threads);
}

static uint64_t read_pages(const volatile char *memory, size_t bytes) {
    uint64_t all = 0;
#pragma omp parallel reduction(+ : all)
    for (size_t i = 0; i < bytes; i += PAGE) all += (uint64_t)memory[i];
    return all;
}

/* New memory each time, or workers would have its pages already. It is not given back before all is measured. */
static void share(const char *metric, size_t bytes, int replicated) {
    char name[80];
    int times = bytes > 1 << 20 ? repeat : 8 * repeat;
    char **all = calloc((size_t)times, sizeof *all);
    if (all == NULL) return;
    for (int i = 0; i < times; i++) {
        char *memory = aligned_alloc(PAGE, bytes);
        if (memory == NULL) break;
        memset(memory, 1, bytes);
        all[i] = memory;
        empty_region();
        double began = now();
        if (replicated && tombolo_omp_replicate(memory, bytes) != 0) break;
        uint64_t pages = read_pages(memory, bytes);
        take(now() - began);
        check(pages == bytes / PAGE * (uint64_t)threads, "sharing");
    }
    snprintf(name, sizeof name, "%s, %s", metric, replicated ? "replicated" : "first read");
    report(name, threads);
    if (!replicated && all[0] != NULL) {
        for (int i = 0; i < times; i++) {
            double began = now();
            read_pages(all[0], bytes);
            take(now() - began);
        }
        snprintf(name, sizeof name, "%s, read again", metric);
        report(name, threads);
    }
    for (int i = 0; i < times; i++) {
        if (replicated && all[i] != NULL) tombolo_omp_restore(all[i], bytes);
        free(all[i]);
    }
    free(all);
}

static void sharing(void) {
    static const struct {
        const char *metric;
        size_t bytes;
    } buffers[] = {{"4 KiB", PAGE}, {"32 MiB", 32 << 20}};
    settle();
    for (int i = 0; i < 2; i++) {
        share(buffers[i].metric, buffers[i].bytes, 0);
        if (tombolo_omp_replicate != NULL) share(buffers[i].metric, buffers[i].bytes, 1);
        else not_replicated(buffers[i].metric);
    }
}

/* --- 7.3 --------------------------------------------------------------------------------------------- */

static void regions(void) {
    enum { BATCH = 64 };
    settle();
    double first = now();
    for (int i = 0; i < 40 * repeat && now() - first < WARM_US; i++) {
        double began = now();
        for (int k = 0; k < BATCH; k++) empty_region();
        take((now() - began) / BATCH);
    }
    report("empty region, warm", threads);
    for (int i = 0; i < 2 * repeat; i++) {
        struct timespec pause = {0, PAUSE_MS * 1000000L};
        nanosleep(&pause, NULL);
        double began = now();
        empty_region();
        take(now() - began);
    }
    report("empty region, cold", threads);
}

/* --- 7.4 and 7.5 ------------------------------------------------------------------------------------- */

/* One row of the product, as in listing B.2. */
static void row_of(const int64_t *a, const int64_t *b, int64_t *c, long i) {
    int64_t *row = c + i * size;
    memset(row, 0, (size_t)size * sizeof *row);
    for (long k = 0; k < size; k++) {
        const int64_t element = a[i * size + k], *other = b + k * size;
        for (long j = 0; j < size; j++) row[j] += element * other[j];
    }
}

/* The diagonal of the product of a[i][k] = i + k and b[k][j] = k - j. */
static int64_t expected(void) {
    int64_t all = 0;
    for (long i = 0; i < size; i++)
        for (long k = 0; k < size; k++) all += (i + k) * (k - i);
    return all;
}

static int64_t diagonal(const int64_t *c) {
    int64_t all = 0;
    for (long i = 0; i < size; i++) all += c[i * size + i];
    return all;
}

/* How many workers run code of another instruction set than the master's. */
static void say_who_works(void) {
#if defined __aarch64__
    enum { ISA = 2 };
#else
    enum { ISA = 1 };
#endif
    static int isa[MOST];
#pragma omp parallel
    isa[omp_get_thread_num()] = ISA;
    int foreign = 0;
    for (int i = 0; i < threads; i++) foreign += isa[i] != ISA;
    printf("{\"metric\": \"workers\", \"threads\": %d, \"foreign\": %d}\n", threads, foreign);
}

/* What the product would take if every thread had the share of rows that fits its speed: how many all do at the same time, until the
 * master says that it has been long enough. Only the master looks at a clock, for that of another node may be another one. */
static double ideal(const int64_t *a, const int64_t *b, int64_t *c) {
    static long rows[MOST][8]; /* a line for each */
    static int stop;
    const double least = 150e3;
    double took = 0;
    stop = 0;
#pragma omp parallel
    {
        int own = omp_get_thread_num();
        row_of(a, b, c, own % size);
        rows[own][0] = 0;
#pragma omp barrier
        double began = now();
        while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
            row_of(a, b, c, (own + rows[own][0] * threads) % size);
            if (own == 0 && now() - began >= least) {
                took = now() - began;
                __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
            }
            if (own == 0 || !__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) rows[own][0]++;
        }
    }
    long all = 0;
    for (int i = 0; i < threads; i++) all += rows[i][0];
    return took * (double)size / (double)all;
}

static void multiply(const char *metric, const int64_t *a, const int64_t *b, int64_t *c, int64_t right, int dynamic) {
    for (int i = 0; i < repeat; i++) {
        double began = now();
        if (dynamic) {
#pragma omp parallel for schedule(dynamic)
            for (long row = 0; row < size; row++) row_of(a, b, c, row);
        } else {
#pragma omp parallel for schedule(static)
            for (long row = 0; row < size; row++) row_of(a, b, c, row);
        }
        take(now() - began);
        check(diagonal(c) == right, metric);
    }
    report(metric, threads);
}

static void matmul(void) {
    size_t bytes = (size_t)(size * size) * sizeof(int64_t);
    int64_t *a = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
    int64_t *b = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
    int64_t *c = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
    if (a == NULL || b == NULL || c == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    for (long i = 0; i < size; i++)
        for (long k = 0; k < size; k++) a[i * size + k] = i + k, b[i * size + k] = i - k;
    memset(c, 0, bytes);
    int64_t right = expected();
    say_who_works();
    /* Between all others, for what is measured at another moment is measured on another machine. */
    double ideals[4] = {ideal(a, b, c)};
    int count = 1;
    multiply("matmul, static", a, b, c, right, 0);
    ideals[count++] = ideal(a, b, c);
    multiply("matmul, dynamic", a, b, c, right, 1);
    ideals[count++] = ideal(a, b, c);
    if (tombolo_omp_replicate == NULL) {
        not_replicated("matmul, dynamic");
    } else if (tombolo_omp_replicate(a, bytes) == 0 && tombolo_omp_replicate(b, bytes) == 0) {
        multiply("matmul, dynamic, replicated", a, b, c, right, 1);
        ideals[count++] = ideal(a, b, c);
        tombolo_omp_restore(a, bytes);
        tombolo_omp_restore(b, bytes);
    }
    take(median_of(ideals, count));
    report("matmul, ideal", threads);
    free(a);
    free(b);
    free(c);
}

int main(int argc, char **argv) {
    int from = 1;
    for (; from + 1 < argc && argv[from][0] == '-'; from += 2) {
        if (strcmp(argv[from], "--repeat") == 0) repeat = atoi(argv[from + 1]);
        else if (strcmp(argv[from], "--size") == 0) size = atol(argv[from + 1]);
        else return fprintf(stderr, "unknown: %s\n", argv[from]), 2;
    }
    threads = omp_get_max_threads();
    if (repeat < 1 || repeat > 100) return fprintf(stderr, "--repeat is from 1 to 100\n"), 2;
    if (size < 1 || size > 4096) return fprintf(stderr, "--size is from 1 to 4096\n"), 2;
    if (threads > MOST) return fprintf(stderr, "at most %d threads\n", MOST), 2;
    const char *section = from < argc ? argv[from] : "";
    if (strcmp(section, "start") == 0 && from + 1 < argc) start(atof(argv[from + 1]) / 1e3);
    else if (strcmp(section, "sharing") == 0) sharing();
    else if (strcmp(section, "regions") == 0) regions();
    else if (strcmp(section, "matmul") == 0) matmul();
    else return fprintf(stderr, "no such section\n"), 2;
    return 0;
}
