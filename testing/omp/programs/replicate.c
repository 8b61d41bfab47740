/* Data that nodes behind a window have copies of. With the word `write` a worker on such a node writes to it, which ends the job. */
#include <errno.h>
#include <omp.h>
#include <string.h>
#include <tombolo_omp.h>
#include "check.h"

enum { COUNT = 1 << 18 };
static int variables[COUNT];

/* The sum, as each thread of a team over all nodes reads it. */
static void all_read(const int *data, long expected) {
    int wrong = 0;
#pragma omp parallel num_threads(6) reduction(+ : wrong)
    {
        long sum = 0;
        for (int at = 0; at < COUNT; at++) sum += data[at];
        wrong += sum != expected;
    }
    EQUAL(wrong, 0);
}

int main(int count, char **words) {
    int *heap = malloc(COUNT * sizeof *heap);
    CHECK(heap != NULL && tombolo_omp_replicate && tombolo_omp_restore);
    long sum = 0;
    for (int at = 0; at < COUNT; at++) {
        variables[at] = heap[at] = at % 100;
        sum += at % 100;
    }
    /* Before any worker has begun; those that come later have copies too. */
    EQUAL(tombolo_omp_replicate(heap, COUNT * sizeof *heap), 0);
    all_read(heap, sum);
    /* Edges that are no whole pages. */
    EQUAL(tombolo_omp_replicate(variables + 3, (COUNT - 7) * sizeof *variables), 0);
    all_read(variables, sum);
    /* From a worker. */
    int error = -1;
#pragma omp parallel num_threads(6)
    if (omp_get_thread_num() == 5) error = tombolo_omp_replicate(variables, sizeof variables);
    EQUAL(error, 0);
    all_read(variables, sum);
    if (count > 1 && strcmp(words[1], "write") == 0) {
        for (int device = 0; device < omp_get_num_devices(); device++) {
#pragma omp target device(device) map(tofrom : heap[0:COUNT])
            heap[COUNT / 2] = 1;
        }
        return 0;
    }
    EQUAL(tombolo_omp_restore(heap, COUNT * sizeof *heap), 0);
    EQUAL(tombolo_omp_restore(variables, sizeof variables), 0);
#pragma omp parallel for num_threads(6) schedule(static)
    for (int at = 0; at < COUNT; at++) {
        heap[at]++;
        variables[at] += 2;
    }
    all_read(heap, sum + COUNT);
    all_read(variables, sum + 2 * COUNT);
    /* What is not shared cannot be. */
    EQUAL(tombolo_omp_replicate((void *)0x1000, 8192), EINVAL);
    EQUAL(tombolo_omp_replicate(heap, 0), 0);
    free(heap);
    puts("right");
    return 0;
}
