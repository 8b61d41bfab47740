/* Regions: how many threads, who they are, what they have of their own, and what sections and single do. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include "check.h"

static int counter;
#pragma omp threadprivate(counter)

static void threads(int wanted) {
    int seen[64] = {0}, total = 0;
#pragma omp parallel num_threads(wanted)
    {
        int id = omp_get_thread_num();
#pragma omp atomic
        seen[id]++;
#pragma omp atomic
        total++;
        EQUAL(omp_get_num_threads(), wanted);
        EQUAL(omp_get_level(), 1);
        EQUAL(omp_in_parallel(), wanted > 1);
        EQUAL(omp_get_ancestor_thread_num(1), id);
        EQUAL(omp_get_ancestor_thread_num(0), 0);
        EQUAL(omp_get_team_size(1), wanted);
        EQUAL(omp_get_ancestor_thread_num(2), -1);
    }
    EQUAL(total, wanted);
    for (int id = 0; id < wanted; id++) EQUAL(seen[id], 1);
    EQUAL(omp_get_level(), 0);
    EQUAL(omp_get_num_threads(), 1);
}

static void privates(void) {
    int size = omp_get_max_threads(), first = 7, last = 0;
    counter = 100;
#pragma omp parallel copyin(counter) firstprivate(first)
    {
        EQUAL(counter, 100);
        first += omp_get_thread_num();
        EQUAL(first, 7 + omp_get_thread_num());
        counter += omp_get_thread_num();
    }
#pragma omp parallel
    EQUAL(counter, 100 + omp_get_thread_num());
#pragma omp parallel for lastprivate(last)
    for (int at = 0; at < 100; at++) last = at;
    EQUAL(last, 99);
    int copied[64];
#pragma omp parallel
    for (int round = 0; round < 50; round++) {
        int value = -1;
#pragma omp single copyprivate(value)
        value = round;
        copied[omp_get_thread_num()] = value;
        EQUAL(value, round);
    }
    for (int id = 0; id < size; id++) EQUAL(copied[id], 49);
}

static void sharing(void) {
    int singles = 0, masters = 0, sections[7] = {0}, scopes = 0;
#pragma omp parallel
    for (int round = 0; round < 200; round++) {
#pragma omp single nowait
        {
#pragma omp atomic
            singles++;
        }
#pragma omp masked
        masters++;
#pragma omp sections nowait
        {
#pragma omp section
#pragma omp atomic
            sections[0]++;
#pragma omp section
#pragma omp atomic
            sections[1]++;
#pragma omp section
#pragma omp atomic
            sections[2]++;
        }
#pragma omp scope reduction(+ : scopes)
        scopes++;
    }
    EQUAL(singles, 200);
    EQUAL(masters, 200);
    EQUAL(scopes, 200 * omp_get_max_threads());
    for (int at = 0; at < 3; at++) EQUAL(sections[at], 200);
#pragma omp parallel sections
    {
#pragma omp section
        sections[3]++;
#pragma omp section
        sections[4]++;
#pragma omp section
        sections[5]++;
    }
    for (int at = 3; at < 6; at++) EQUAL(sections[at], 1);
}

static void barriers(void) {
    int arrived = 0;
#pragma omp parallel
    for (int round = 1; round <= 300; round++) {
#pragma omp atomic
        arrived++;
#pragma omp barrier
        EQUAL(arrived, round * omp_get_num_threads());
#pragma omp barrier
    }
}

static void many_regions(void) {
    long sum = 0;
    for (int round = 0; round < 500; round++) {
#pragma omp parallel num_threads(1 + round % omp_get_max_threads()) reduction(+ : sum)
        sum += omp_get_num_threads();
    }
    long expected = 0;
    for (int round = 0; round < 500; round++) {
        long size = 1 + round % omp_get_max_threads();
        expected += size * size;
    }
    EQUAL(sum, expected);
}

/* What a constructor asks and sets holds in main. Where workers are processes, there are none before main. */
static int early_threads, early_processors, early_size, early_total;

__attribute__((constructor)) static void early(void) {
    early_threads = omp_get_max_threads();
    early_processors = omp_get_num_procs();
    omp_set_schedule(omp_sched_guided, 5);
    omp_set_max_active_levels(3);
#pragma omp parallel reduction(+ : early_total)
    {
        early_total++;
        if (omp_get_thread_num() == 0) early_size = omp_get_num_threads();
    }
}

static void set_by_constructor(void) {
    omp_sched_t kind;
    int chunk;
    omp_get_schedule(&kind, &chunk);
    EQUAL(kind & 7, omp_sched_guided);
    EQUAL(chunk, 5);
    EQUAL(omp_get_max_active_levels(), 3);
    EQUAL(early_threads, omp_get_max_threads());
    EQUAL(early_processors, omp_get_num_procs());
    EQUAL(early_total, early_size);
    EQUAL(early_size == 1 || early_size == early_threads, 1);
    omp_set_max_active_levels(1);
}

/* Workers that are threads end, and others begin with initial values; those that are processes stay. */
static void paused(void) {
    const char *mode = getenv("OMP_TOMBOLO");
    int are_threads = mode == NULL || strcmp(mode, "shared") == 0;
    omp_set_max_active_levels(2);
    for (int round = 0; round < 50; round++) {
#pragma omp parallel
        {
            counter = 5 + omp_get_thread_num();
            if (omp_in_parallel()) EQUAL(omp_pause_resource_all(omp_pause_hard), -1);
            if (round % 7 == 0) {
#pragma omp parallel num_threads(2)
                EQUAL(omp_get_num_threads(), 2);
            }
        }
        EQUAL(omp_pause_resource_all(round % 2 ? omp_pause_hard : omp_pause_soft), 0);
#pragma omp parallel
        {
            int id = omp_get_thread_num();
            EQUAL(counter, id == 0 || !are_threads ? 5 + id : 0);
        }
    }
    omp_set_max_active_levels(1);
}

int main(void) {
    int size = omp_get_max_threads();
    set_by_constructor();
    for (int wanted = 1; wanted <= size; wanted++) threads(wanted);
    threads(size + 3);
    privates();
    sharing();
    barriers();
    many_regions();
    paused();
    omp_set_num_threads(2);
    EQUAL(omp_get_max_threads(), 2);
#pragma omp parallel
    EQUAL(omp_get_num_threads(), 2);
#pragma omp parallel if (0)
    EQUAL(omp_get_num_threads(), 1);
    puts("regions: right");
    return 0;
}
