/* Work whose amount is known: 1000 iterations of a loop that calls the library, 1000 of one that does not, and 20 tasks. */
#include <omp.h>
#include "check.h"

static void loops(long *sum) {
    long all = 0;
#pragma omp parallel reduction(+ : all)
    {
#pragma omp for schedule(dynamic, 10)
        for (int i = 0; i < 1000; i++)
            all += i;
#pragma omp for schedule(static)
        for (int i = 0; i < 1000; i++)
            all += i;
    }
    *sum = all;
}

static void tasks(int *count) {
    int done = 0;
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < 20; i++) {
#pragma omp task shared(done)
#pragma omp atomic
        done++;
    }
    *count = done;
}

int main(void) {
    for (int run = 0; run < 3; run++) {
        long sum = 0;
        int count = 0;
        loops(&sum);
        tasks(&count);
        CHECK(sum == 999000);
        CHECK(count == 20);
    }
    puts("report: right");
    return 0;
}
