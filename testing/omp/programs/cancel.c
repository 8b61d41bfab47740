/* Cancellation, with OMP_CANCELLATION=true, and that nothing is cancelled without. */
#include <omp.h>
#include "check.h"

int main(void) {
    int cancels = omp_get_cancellation(), size = omp_get_max_threads();
    int reached = 0, iterations = 0, sections = 0, tasks = 0;
#pragma omp parallel
    {
#pragma omp barrier
        if (omp_get_thread_num() == size - 1) {
#pragma omp cancel parallel
        }
#pragma omp barrier
#pragma omp cancellation point parallel
#pragma omp atomic
        reached++;
    }
    EQUAL(reached, cancels ? 0 : size);
#pragma omp parallel
    {
#pragma omp for schedule(dynamic)
        for (int at = 0; at < 100000; at++) {
#pragma omp atomic
            iterations++;
#pragma omp cancel for
        }
#pragma omp atomic
        reached++;
    }
    CHECK(cancels ? iterations <= size : iterations == 100000);
    EQUAL(reached, cancels ? size : 2 * size);
    /* A loop with a static schedule is cancelled, and the next one is not. */
    int first = 0, second = 0, never = 0;
#pragma omp parallel
    {
#pragma omp for
        for (int at = 0; at < 1000; at++) {
#pragma omp cancel for
#pragma omp atomic
            first++;
        }
#pragma omp for
        for (int at = 0; at < 1000; at++) {
#pragma omp cancel for if (never)
#pragma omp atomic
            second++;
        }
    }
    EQUAL(first, cancels ? 0 : 1000);
    EQUAL(second, 1000);
#pragma omp parallel
#pragma omp sections
    {
#pragma omp section
        {
#pragma omp cancel sections
#pragma omp atomic
            sections++;
        }
#pragma omp section
        {
#pragma omp cancel sections
#pragma omp atomic
            sections++;
        }
    }
    EQUAL(sections, cancels ? 0 : 2);
#pragma omp parallel
#pragma omp single
    {
#pragma omp taskgroup
        {
#pragma omp task if (0)
            {
#pragma omp cancel taskgroup
            }
            for (int at = 0; at < 100; at++)
#pragma omp task
            {
#pragma omp atomic
                tasks++;
            }
        }
    }
    EQUAL(tasks, cancels ? 0 : 100);
    int ordered = 0;
#pragma omp parallel for ordered schedule(dynamic, 2)
    for (int at = 0; at < 100; at++) {
#pragma omp ordered
        ordered++;
    }
    EQUAL(ordered, 100);
    puts("cancel: right");
    return 0;
}
