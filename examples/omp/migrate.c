/* A thread that goes to another node and back, and what that costs, for `tombolo ompcc -fopenmp` or any gcc that finds tombolo_migrate.h.
 *
 *     migrate [CALLS]      how often each is measured [1000]
 *
 * Says what a call costs here, on each other node, and what an OpenMP region on that node costs. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tombolo_migrate.h>

static long long calls;

TOMBOLO_MIGRATE(visit)
int visit(int number)
{
    calls++;
    return number + 1;
}

/* The same without the mark. */
__attribute__((noinline, noclone)) static int stay(int number)
{
    calls++;
    return number + 1;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static int compare(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static void say(const char *what, double *each, int count)
{
    qsort(each, (size_t)count, sizeof *each, compare);
    printf("%-28s %10.3f us, 99 of 100 below %10.3f us\n", what, each[count / 2], each[count * 99 / 100]);
}

int main(int count, char **words)
{
    char *end = NULL;
    long turns = count > 1 ? strtol(words[1], &end, 10) : 1000;
    if ((end && *end) || turns < 1 || turns > 1000000) {
        fprintf(stderr, "usage: migrate [CALLS]\n");
        return 2;
    }
    double *each = malloc((size_t)turns * sizeof *each);
    if (!each)
        return 1;
    int sum = 0;
    /* Short calls are measured by the hundred. */
    for (long turn = 0; turn < turns; turn++) {
        double begin = now();
        for (int times = 0; times < 100; times++)
            sum = stay(sum);
        each[turn] = (now() - begin) / 100;
    }
    say("a plain call", each, (int)turns);
    for (int node = 0; node < tombolo_nodes(); node++) {
        char what[64];
        tombolo_migrate(node);
        sum = visit(sum);
        for (long turn = 0; turn < turns; turn++) {
            int many = node ? 1 : 100;
            double begin = now();
            for (int times = 0; times < many; times++)
                sum = visit(sum);
            each[turn] = (now() - begin) / many;
        }
        snprintf(what, sizeof what, node ? "to node %d and back" : "a marked call that stays", node);
        say(what, each, (int)turns);
        tombolo_migrate(0);
        if (node == 0)
            continue;
#pragma omp target device(node - 1)
        sum = visit(sum);
        for (long turn = 0; turn < turns; turn++) {
            double begin = now();
#pragma omp target device(node - 1)
            calls++;
            each[turn] = now() - begin;
        }
        snprintf(what, sizeof what, "target on node %d", node);
        say(what, each, (int)turns);
    }
#pragma omp parallel
    sum += 0;
    for (long turn = 0; turn < turns; turn++) {
        double begin = now();
#pragma omp parallel
        if (omp_get_thread_num() == 0)
            calls++;
        each[turn] = now() - begin;
    }
    char what[64];
    snprintf(what, sizeof what, "parallel, %d threads", omp_get_max_threads());
    say(what, each, (int)turns);
    printf("%lld calls, result %d\n", calls, sum);
    free(each);
    return 0;
}
