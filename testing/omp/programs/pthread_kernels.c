/* Jacobi's iteration, a Fourier transform and an LU factorisation by threads of POSIX and nothing else: what a program is that was
   never meant for several nodes. The words: which, its size, how many threads. Each compares with what one thread computes, or with
   the matrix that it began with, and says on how many processors' instruction sets its threads ran. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "check.h"

#define MOST 64
#define PI 3.14159265358979323846

static int size, threads;
static pthread_barrier_t all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Not static: a build that never changes one takes it for a constant. */
int on_x86, on_arm;
static double change;

static void say_where(void) {
    pthread_mutex_lock(&lock);
#ifdef __aarch64__
    on_arm++;
#else
    on_x86++;
#endif
    pthread_mutex_unlock(&lock);
}

/* The part of `count` that a thread has: from here to that of the next. */
static int part(int count, long number) { return (int)((long)count * number / threads); }

/* Heat on a plate: rows are shared out, and every step compares the largest change under a mutex. */
static double *now, *next;

static void relax(int from, int to, double *largest) {
    for (int row = from < 1 ? 1 : from; row < to && row < size - 1; row++)
        for (int column = 1; column < size - 1; column++) {
            double *at = now + (long)row * size + column;
            double value = (at[-1] + at[1] + at[-size] + at[size]) / 4, moved = fabs(value - *at);
            next[(long)row * size + column] = value;
            if (moved > *largest) *largest = moved;
        }
}

static void plate(void) {
    memset(now, 0, sizeof(double) * (size_t)size * (size_t)size);
    for (int column = 0; column < size; column++) now[column] = 100;
    memcpy(next, now, sizeof(double) * (size_t)size * (size_t)size);
    change = 0;
}

static int steps = 50;

static void *jacobi(void *argument) {
    long number = (long)argument;
    say_where();
    for (int step = 0; step < steps; step++) {
        double largest = 0;
        relax(part(size, number), part(size, number + 1), &largest);
        pthread_mutex_lock(&lock);
        if (largest > change) change = largest;
        pthread_mutex_unlock(&lock);
        if (pthread_barrier_wait(&all) == PTHREAD_BARRIER_SERIAL_THREAD) {
            double *before = now;
            now = next, next = before;
            if (step < steps - 1) change = 0;
        }
        pthread_barrier_wait(&all);
    }
    return NULL;
}

/* A transform in place, in stages of butterflies that are shared out, with a barrier after each. */
static double (*points)[2], (*kept)[2];

static void reorder(void) {
    for (int at = 1, other = 0; at < size; at++) {
        int bit = size >> 1;
        for (; other & bit; bit >>= 1) other ^= bit;
        other ^= bit;
        if (at < other) {
            double real = points[at][0], imaginary = points[at][1];
            memcpy(points[at], points[other], sizeof points[at]);
            points[other][0] = real, points[other][1] = imaginary;
        }
    }
}

static void butterfly(int length, int number, int sign) {
    int half = length / 2, group = number / half, within = number % half;
    double angle = sign * 2 * PI * within / length, real = cos(angle), imaginary = sin(angle);
    double *a = points[group * length + within], *b = points[group * length + within + half];
    double x = b[0] * real - b[1] * imaginary, y = b[0] * imaginary + b[1] * real;
    b[0] = a[0] - x, b[1] = a[1] - y, a[0] += x, a[1] += y;
}

static void *transform(void *argument) {
    long number = (long)argument;
    say_where();
    for (int sign = -1; sign <= 1; sign += 2) {
        if (number == 0) reorder();
        pthread_barrier_wait(&all);
        for (int length = 2; length <= size; length *= 2) {
            for (int at = part(size / 2, number); at < part(size / 2, number + 1); at++) butterfly(length, at, sign);
            pthread_barrier_wait(&all);
        }
    }
    return NULL;
}

/* Rows are taken from a counter; a condition variable says that the row of the pivot is done. */
static double *matrix, *original;
static int column_done, next_row;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;

static void *factor(void *argument) {
    long number = (long)argument;
    say_where();
    for (int column = 0; column < size - 1; column++) {
        double *pivot = matrix + (long)column * size;
        for (int row = column + 1; row < size; row++) {
            if (row % threads != number) continue;
            double *at = matrix + (long)row * size, factor = at[column] / pivot[column];
            at[column] = factor;
            for (int k = column + 1; k < size; k++) at[k] -= factor * pivot[k];
        }
        /* Who is the last to come to the end of the column lets all go on. */
        pthread_mutex_lock(&lock);
        int mine = column_done;
        if (++next_row == threads) {
            next_row = 0, column_done++;
            pthread_cond_broadcast(&done);
        } else
            while (column_done == mine) pthread_cond_wait(&done, &lock);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double in_threads(void *(*function)(void *)) {
    pthread_t started[MOST];
    double begun = seconds();
    for (long number = 0; number < threads; number++) EQUAL(pthread_create(&started[number], NULL, function, (void *)number), 0);
    for (int number = 0; number < threads; number++) EQUAL(pthread_join(started[number], NULL), 0);
    return seconds() - begun;
}

/* Small whole numbers that look random. */
static int random_at(long index) { return (int)(((unsigned long)index * 2862933555777941757u + 3037000493u) >> 40) % 1000; }

int main(int count, char **words) {
    CHECK(count > 3);
    size = atoi(words[2]), threads = atoi(words[3]);
    if (count > 4) steps = atoi(words[4]);
    CHECK(size > 1 && threads > 0 && threads <= MOST);
    EQUAL(pthread_barrier_init(&all, NULL, (unsigned)threads), 0);
    size_t cells = (size_t)size * (size_t)size;
    double took = 0;
    if (strcmp(words[1], "jacobi") == 0) {
        now = malloc(sizeof(double) * cells), next = malloc(sizeof(double) * cells);
        plate();
        took = in_threads(jacobi);
        double *result = malloc(sizeof(double) * cells), of_threads = change;
        memcpy(result, now, sizeof(double) * cells);
        plate();
        for (int step = 0; step < steps; step++) {
            double *before = now;
            change = 0;
            relax(0, size, &change);
            now = next, next = before;
        }
        CHECK(memcmp(result, now, sizeof(double) * cells) == 0 && of_threads == change);
    } else if (strcmp(words[1], "fft") == 0) {
        CHECK((size & (size - 1)) == 0);
        points = malloc(sizeof *points * (size_t)size), kept = malloc(sizeof *kept * (size_t)size);
        for (long at = 0; at < size; at++) points[at][0] = random_at(2 * at), points[at][1] = random_at(2 * at + 1);
        memcpy(kept, points, sizeof *points * (size_t)size);
        /* There and back. */
        took = in_threads(transform);
        for (int at = 0; at < size; at++)
            CHECK(fabs(points[at][0] / size - kept[at][0]) < 1e-6 && fabs(points[at][1] / size - kept[at][1]) < 1e-6);
    } else {
        CHECK(strcmp(words[1], "lu") == 0);
        matrix = malloc(sizeof(double) * cells), original = malloc(sizeof(double) * cells);
        for (long at = 0; at < (long)cells; at++) matrix[at] = random_at(at) + (at % (size + 1) == 0 ? 1000.0 * size : 0);
        memcpy(original, matrix, sizeof(double) * cells);
        took = in_threads(factor);
        for (int row = 0; row < size; row++)
            for (int column = 0; column < size; column++) {
                double sum = 0;
                for (int k = 0; k <= (row < column ? row : column); k++)
                    sum += (k == row ? 1 : matrix[(long)row * size + k]) * matrix[(long)k * size + column];
                CHECK(fabs(sum - original[(long)row * size + column]) < 1e-6 * size);
            }
    }
    printf("%s: right, %d instruction sets\n", words[1], (on_x86 > 0) + (on_arm > 0));
    fprintf(stderr, "%.4f s, %d threads on x86-64, %d on aarch64\n", took, on_x86, on_arm);
    return 0;
}
