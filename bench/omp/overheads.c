/* What the constructs of OpenMP cost, one line for each: see measure.h.
 *
 * The overhead of a construct is the time of a loop that runs it less the time of a loop with the same work and without it, for one
 * iteration: what J. M. Bull's microbenchmarks (EPCC) measure. The work is a delay of a tenth of a microsecond, loops are as long as makes
 * them take --us microseconds, and loops with and without the construct take turns --repeat times.
 *
 * usage: overheads [--us MICROSECONDS] [--repeat COUNT] [constructs|schedules|tasks]...     without sections, all of them
 */
#include <omp.h>
#include <string.h>

#include "measure.h"

enum { PER_THREAD = 128, MOST = 256 };

static double length = 1000;
static int repeat = 20;
static int threads;
static long delay_turns = 1;
static omp_lock_t lock;
static long counter;
static double sum;

/* One piece of code for all, wherever it lies. */
__attribute__((noinline)) static void delay(void) {
    volatile long turns = delay_turns;
    for (long i = turns; i > 0; i--) __asm__ volatile("" : : : "memory");
}

/* How many turns take a tenth of a microsecond. */
static void calibrate(void) {
    delay_turns = 1 << 20;
    double best = 1e300;
    for (int i = 0; i < 5; i++) {
        double start = now();
        delay();
        double took = now() - start;
        if (took < best) best = took;
    }
    delay_turns = (long)((double)delay_turns * 0.1 / best);
    if (delay_turns < 1) delay_turns = 1;
}

/* --- loops with nothing but the work ---------------------------------------------------------------- */

static void plain(long count) {
    for (long i = 0; i < count; i++) delay();
}

static void plain_sum(long count) {
    for (long i = 0; i < count; i++) {
        sum += 1;
        __asm__ volatile("" : : : "memory");
    }
}

static void plain_iterations(long count) {
    for (long i = 0; i < count; i++)
        for (int k = 0; k < PER_THREAD; k++) delay();
}

/* --- constructs ------------------------------------------------------------------------------------- */

static void parallel(long count) {
    for (long i = 0; i < count; i++) {
#pragma omp parallel
        delay();
    }
}

static void worksharing(long count) {
#pragma omp parallel
    for (long i = 0; i < count; i++) {
#pragma omp for
        for (int k = 0; k < threads; k++) delay();
    }
}

static void parallel_worksharing(long count) {
    for (long i = 0; i < count; i++) {
#pragma omp parallel for
        for (int k = 0; k < threads; k++) delay();
    }
}

static void barrier(long count) {
#pragma omp parallel
    for (long i = 0; i < count; i++) {
        delay();
#pragma omp barrier
    }
}

static void single(long count) {
#pragma omp parallel
    for (long i = 0; i < count; i++) {
#pragma omp single
        delay();
    }
}

static void critical(long count) {
    counter = 0;
#pragma omp parallel
    for (long i = 0; i < count / threads; i++) {
#pragma omp critical
        {
            delay();
            counter++;
        }
    }
    check(counter == count / threads * threads, "critical");
}

static void locked(long count) {
    counter = 0;
#pragma omp parallel
    for (long i = 0; i < count / threads; i++) {
        omp_set_lock(&lock);
        delay();
        counter++;
        omp_unset_lock(&lock);
    }
    check(counter == count / threads * threads, "lock");
}

static void ordered(long count) {
#pragma omp parallel for ordered schedule(static, 1)
    for (long i = 0; i < count; i++) {
#pragma omp ordered
        delay();
    }
}

static void atomic(long count) {
    sum = 0;
#pragma omp parallel
    for (long i = 0; i < count / threads; i++) {
#pragma omp atomic
        sum += 1;
    }
    check(sum == (double)(count / threads * threads), "atomic");
}

static void reduction(long count) {
    double all = 0;
    for (long i = 0; i < count; i++) {
#pragma omp parallel reduction(+ : all)
        {
            delay();
            all += 1;
        }
    }
    check(all == (double)count * threads, "reduction");
}

/* --- schedules: PER_THREAD iterations for each thread in each loop ---------------------------------- */

#define SCHEDULE(name, words)                                                                                                      \
    static void name(long count) {                                                                                                 \
        _Pragma("omp parallel") for (long i = 0; i < count; i++) {                                                                 \
            _Pragma(words) for (int k = 0; k < PER_THREAD * threads; k++) delay();                                                 \
        }                                                                                                                          \
    }

SCHEDULE(static_whole, "omp for schedule(static)")
SCHEDULE(static_1, "omp for schedule(static, 1)")
SCHEDULE(static_8, "omp for schedule(static, 8)")
SCHEDULE(static_64, "omp for schedule(static, 64)")
SCHEDULE(dynamic_1, "omp for schedule(dynamic, 1)")
SCHEDULE(dynamic_8, "omp for schedule(dynamic, 8)")
SCHEDULE(dynamic_64, "omp for schedule(dynamic, 64)")
SCHEDULE(guided_1, "omp for schedule(guided, 1)")
SCHEDULE(guided_8, "omp for schedule(guided, 8)")
SCHEDULE(guided_64, "omp for schedule(guided, 64)")

/* --- tasks: as many for each thread as the loop without has iterations ------------------------------- */

static void task_of_all(long count) {
#pragma omp parallel
    for (long i = 0; i < count; i++) {
#pragma omp task
        delay();
    }
}

static void task_of_master(long count) {
#pragma omp parallel
#pragma omp master
    for (long i = 0; i < count * threads; i++) {
#pragma omp task
        delay();
    }
}

static void task_nested(long count) {
#pragma omp parallel
    for (long i = 0; i < count / 8; i++) {
#pragma omp task
        {
            for (int k = 0; k < 8; k++) {
#pragma omp task
                delay();
            }
#pragma omp taskwait
        }
    }
}

static void task_waited_for(long count) {
#pragma omp parallel
    for (long i = 0; i < count; i++) {
#pragma omp task
        delay();
#pragma omp taskwait
    }
}

/* --- measuring --------------------------------------------------------------------------------------- */

typedef void (*Loop)(long count);

struct row {
    const char *section, *metric;
    Loop loop, without;
};

static const struct row rows[] = {
    {"constructs", "parallel", parallel, plain},
    {"constructs", "for", worksharing, plain},
    {"constructs", "parallel for", parallel_worksharing, plain},
    {"constructs", "barrier", barrier, plain},
    {"constructs", "single", single, plain},
    {"constructs", "critical", critical, plain},
    {"constructs", "lock", locked, plain},
    {"constructs", "ordered", ordered, plain},
    {"constructs", "atomic", atomic, plain_sum},
    {"constructs", "reduction", reduction, plain},
    {"schedules", "static", static_whole, plain_iterations},
    {"schedules", "static,1", static_1, plain_iterations},
    {"schedules", "static,8", static_8, plain_iterations},
    {"schedules", "static,64", static_64, plain_iterations},
    {"schedules", "dynamic,1", dynamic_1, plain_iterations},
    {"schedules", "dynamic,8", dynamic_8, plain_iterations},
    {"schedules", "dynamic,64", dynamic_64, plain_iterations},
    {"schedules", "guided,1", guided_1, plain_iterations},
    {"schedules", "guided,8", guided_8, plain_iterations},
    {"schedules", "guided,64", guided_64, plain_iterations},
    {"tasks", "task by all", task_of_all, plain},
    {"tasks", "task by master", task_of_master, plain},
    {"tasks", "nested task", task_nested, plain},
    {"tasks", "task and taskwait", task_waited_for, plain},
};

static double timed(Loop loop, long count) {
    double start = now();
    loop(count);
    return now() - start;
}

static void measure(const struct row *row) {
    static double without[SAMPLES];
    /* A multiple of the number of threads, and of what tasks are nested by. */
    long unit = 8L * threads, count = unit;
    while (timed(row->loop, count) < length && count < 1L << 40) count *= 2;
    for (int i = 0; i < repeat; i++) {
        without[i] = timed(row->without, count);
        take(timed(row->loop, count));
    }
    double reference = median_of(without, repeat);
    for (int i = 0; i < taken; i++) samples[i] = (samples[i] - reference) / (double)count;
    report(row->metric, threads);
}

int main(int argc, char **argv) {
    int from = 1;
    for (; from + 1 < argc && argv[from][0] == '-'; from += 2) {
        if (strcmp(argv[from], "--us") == 0) length = atof(argv[from + 1]);
        else if (strcmp(argv[from], "--repeat") == 0) repeat = atoi(argv[from + 1]);
        else return fprintf(stderr, "unknown: %s\n", argv[from]), 2;
    }
    if (repeat < 1 || repeat > SAMPLES) return fprintf(stderr, "--repeat is from 1 to %d\n", SAMPLES), 2;
    threads = omp_get_max_threads();
    if (threads > MOST) return fprintf(stderr, "at most %d threads\n", MOST), 2;
    calibrate();
    omp_init_lock(&lock);
    settle();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int wanted = from >= argc;
        for (int k = from; k < argc; k++) wanted |= strcmp(argv[k], rows[i].section) == 0;
        if (wanted) measure(&rows[i]);
    }
    omp_destroy_lock(&lock);
    return 0;
}
