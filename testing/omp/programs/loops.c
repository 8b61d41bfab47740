/* Loops: every iteration once, whatever the schedule, the step and the type of the variable. */
#include <limits.h>
#include <omp.h>
#include <unistd.h>
#include "check.h"

enum { MOST = 1000 };
static int hits[MOST];

static void clear(void) {
    for (int at = 0; at < MOST; at++) hits[at] = 0;
}

static void all(int count) {
    for (int at = 0; at < MOST; at++) EQUAL(hits[at], at < count);
    clear();
}

static void hit(long at) {
    CHECK(at >= 0 && at < MOST);
#pragma omp atomic
    hits[at]++;
}

#define EVERY_WAY(CLAUSE, COUNT) \
    do { \
        long count = (COUNT); \
        _Pragma(CLAUSE) for (long at = 0; at < count; at++) hit(at); \
        all(COUNT); \
    } while (0)

static void schedules(int count) {
    EVERY_WAY("omp parallel for schedule(static)", count);
    EVERY_WAY("omp parallel for schedule(static, 3)", count);
    EVERY_WAY("omp parallel for schedule(dynamic)", count);
    EVERY_WAY("omp parallel for schedule(monotonic: dynamic, 7)", count);
    EVERY_WAY("omp parallel for schedule(nonmonotonic: dynamic, 2)", count);
    EVERY_WAY("omp parallel for schedule(guided)", count);
    EVERY_WAY("omp parallel for schedule(guided, 5)", count);
    EVERY_WAY("omp parallel for schedule(auto)", count);
    EVERY_WAY("omp parallel for schedule(runtime)", count);
    EVERY_WAY("omp parallel for schedule(monotonic: runtime)", count);
    EVERY_WAY("omp parallel for ordered schedule(static, 2)", count);
}

static void steps(void) {
#pragma omp parallel for schedule(dynamic, 3)
    for (int at = 900; at > 0; at -= 7) hit((900 - at) / 7);
    all(129);
#pragma omp parallel for schedule(guided)
    for (long at = -50; at <= 50; at += 4) hit((at + 50) / 4);
    all(26);
#pragma omp parallel for schedule(dynamic)
    for (unsigned long long at = ULLONG_MAX - 100; at < ULLONG_MAX - 3; at += 5) hit((long)((at - (ULLONG_MAX - 100)) / 5));
    all(20);
#pragma omp parallel for schedule(guided, 2)
    for (unsigned long long at = 500; at > 2; at -= 3) hit((long)((500 - at) / 3));
    all(166);
#pragma omp parallel for schedule(dynamic)
    for (long at = LONG_MAX - 30; at < LONG_MAX - 1; at += 2) hit((at - (LONG_MAX - 30)) / 2);
    all(15);
#pragma omp parallel for schedule(static, 4)
    for (unsigned long long at = 10; at < 10; at++) hit(0);
    all(0);
}

static void collapsed(void) {
#pragma omp parallel for collapse(3) schedule(dynamic, 3)
    for (int one = 0; one < 5; one++)
        for (int two = 0; two < 8; two++)
            for (int three = 10; three > 0; three -= 2) hit((one * 8 + two) * 5 + (10 - three) / 2);
    all(200);
#pragma omp parallel for collapse(2)
    for (int one = 0; one < 20; one++)
        for (int two = 0; two <= one; two++) hit(one * (one + 1) / 2 + two);
    all(210);
}

static void without_waiting(void) {
    long sums[3] = {0};
#pragma omp parallel
    for (int round = 0; round < 100; round++) {
#pragma omp for schedule(dynamic, 2) nowait
        for (int at = 0; at < 20; at++) {
#pragma omp atomic
            sums[0] += at;
        }
#pragma omp for schedule(guided) nowait
        for (int at = 0; at < 20; at++) {
#pragma omp atomic
            sums[1] += at;
        }
#pragma omp for schedule(runtime) nowait
        for (int at = 0; at < 20; at++) {
#pragma omp atomic
            sums[2] += at;
        }
    }
    for (int at = 0; at < 3; at++) EQUAL(sums[at], 19000);
}

/* Threads are up to 150 loops ahead of the one that comes late, and begin the next region with what they have of this one. */
static void ahead(void) {
    for (int region = 0; region < 6; region++) {
        long sum = 0;
        int taken[150] = {0};
#pragma omp parallel reduction(+ : sum)
        {
            if (omp_get_thread_num() == region % omp_get_num_threads()) usleep(2000);
            for (int loop = 0; loop < 150; loop++) {
#pragma omp for schedule(dynamic) nowait
                for (int at = 0; at < 3 + region; at++) sum += loop;
#pragma omp sections nowait
                {
#pragma omp section
                    taken[loop]++;
                }
                if (loop % 50 == 20) {
#pragma omp barrier
                }
            }
        }
        EQUAL(sum, (3 + region) * 150 * 149 / 2);
        for (int loop = 0; loop < 150; loop++) EQUAL(taken[loop], 1);
    }
}

static void last(void) {
    int at_last = -1, conditional = -1;
#pragma omp parallel for schedule(dynamic, 3) lastprivate(at_last)
    for (int at = 0; at < 77; at++) at_last = at;
    EQUAL(at_last, 76);
#pragma omp parallel for schedule(dynamic, 5) lastprivate(conditional : conditional)
    for (int at = 0; at < 100; at++)
        if (at % 9 == 0) conditional = at;
    EQUAL(conditional, 99);
}

int main(void) {
    int counts[] = {0, 1, 2, 3, 10, 64, 999};
    for (int at = 0; at < 7; at++) schedules(counts[at]);
    omp_sched_t kinds[] = {omp_sched_static, omp_sched_dynamic, omp_sched_guided, omp_sched_auto};
    for (int at = 0; at < 4; at++) {
        omp_sched_t kind;
        int chunk;
        omp_set_schedule(kinds[at], 4);
        omp_get_schedule(&kind, &chunk);
        EQUAL(kind & ~omp_sched_monotonic, kinds[at]);
        if (at < 3) EQUAL(chunk, 4);
        schedules(100);
    }
    steps();
    collapsed();
    without_waiting();
    ahead();
    last();
    puts("loops: right");
    return 0;
}
