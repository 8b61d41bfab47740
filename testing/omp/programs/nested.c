/* Regions within regions, teams, and limits. */
#include <omp.h>
#include "check.h"

static void nested(void) {
    int total = 0, inner = 0;
    omp_set_max_active_levels(3);
    EQUAL(omp_get_max_active_levels(), 3);
#pragma omp parallel num_threads(3)
    {
        int outer = omp_get_thread_num();
        for (int round = 0; round < 20; round++) {
#pragma omp parallel num_threads(2)
            {
                EQUAL(omp_get_level(), 2);
                EQUAL(omp_get_active_level(), 2);
                EQUAL(omp_get_ancestor_thread_num(1), outer);
                EQUAL(omp_get_team_size(1), 3);
                EQUAL(omp_get_num_threads(), 2);
#pragma omp atomic
                total++;
#pragma omp barrier
#pragma omp for schedule(dynamic)
                for (int at = 0; at < 10; at++) {
#pragma omp atomic
                    inner++;
                }
#pragma omp single
                {
#pragma omp task
                    {
#pragma omp atomic
                        inner++;
                    }
                }
            }
        }
    }
    EQUAL(total, 20 * 3 * 2);
    EQUAL(inner, 20 * 3 * 11);
    omp_set_max_active_levels(1);
#pragma omp parallel num_threads(2)
    {
#pragma omp parallel num_threads(4)
        {
            EQUAL(omp_get_num_threads(), 1);
            EQUAL(omp_get_level(), 2);
            EQUAL(omp_get_active_level(), 1);
#pragma omp parallel
            EQUAL(omp_get_level(), 3);
        }
    }
}

int main(void) {
    nested();
    int teams = 0, threads = 0;
#pragma omp teams num_teams(4) thread_limit(2) reduction(+ : teams, threads)
    {
        teams++;
        CHECK(omp_get_team_num() < omp_get_num_teams());
#pragma omp parallel num_threads(8) reduction(+ : threads)
        threads++;
    }
    EQUAL(teams, 4);
    EQUAL(threads, 8);
    int hits[100] = {0};
#pragma omp teams distribute parallel for
    for (int at = 0; at < 100; at++) hits[at]++;
    for (int at = 0; at < 100; at++) EQUAL(hits[at], 1);
    omp_set_dynamic(1);
    EQUAL(omp_get_dynamic(), 1);
#pragma omp parallel num_threads(16)
    CHECK(omp_get_num_threads() <= omp_get_num_procs());
    puts("nested: right");
    return 0;
}
