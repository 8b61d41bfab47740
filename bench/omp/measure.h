/* What the programs of `tombolo bench omp` have in common: a clock, samples, and lines of JSON on standard output:
 *
 *   {"metric": "barrier", "threads": 2, "p50": 0.31, "p99": 0.52, "samples": 20}
 *
 * All figures are microseconds. What a stack cannot do is said so, with the reason:
 *
 *   {"metric": "32 MiB, replicated", "threads": 2, "skipped": "why"}
 */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SAMPLES = 4096 };

static double samples[SAMPLES];
static int taken;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void take(double microseconds) {
    if (taken < SAMPLES) samples[taken++] = microseconds;
}

static int by_value(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median_of(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

/* Writes what was taken, and forgets it. */
static void report(const char *metric, int threads) {
    if (taken == 0) return;
    double middle = median_of(samples, taken);
    printf("{\"metric\": \"%s\", \"threads\": %d, \"p50\": %.4f, \"p99\": %.4f, \"samples\": %d}\n", metric, threads, middle,
           samples[taken - 1 - taken / 100], taken);
    fflush(stdout);
    taken = 0;
}

/* Regions for a twentieth of a second, after which the scheduler has put workers where they stay. */
static void settle(void) {
    double began = now();
    while (now() - began < 50e3) {
#pragma omp parallel
        __asm__ volatile("" : : : "memory");
    }
}

/* A figure of a program that computes something else is none. */
static void check(int right, const char *what) {
    if (right) return;
    fprintf(stderr, "wrong result: %s\n", what);
    exit(3);
}

#endif
