/* Prints from all threads of a team, to a pipe: in turn, and then one at a time. */
#include <omp.h>
#include <stdio.h>

int main(void) {
    puts("before");
#pragma omp parallel for ordered schedule(dynamic, 3)
    for (int line = 0; line < 1000; line++) {
#pragma omp ordered
        printf("line %d of a thousand\n", line);
    }
    puts("after");
#pragma omp parallel for schedule(dynamic)
    for (int line = 0; line < 1000; line++) {
#pragma omp critical
        printf("a whole line of %d at once\n", omp_get_num_threads());
    }
    return 0;
}
