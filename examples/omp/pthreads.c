/* What threads of POSIX cost on the node where they are created and on another: an ordinary program, which runs its threads on the nodes
   that OMP_TOMBOLO_PTHREADS says. The word is how often each is measured.

       tombolo ompcc -O2 pthreads.c -o pthreads.tbi
       tombolo run --on host -e OMP_TOMBOLO=hybrid -e OMP_TOMBOLO_NODES=arm0 -e OMP_TOMBOLO_PTHREADS=others pthreads.tbi 200 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PAGE 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn, times;
static volatile char *pages;

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

static void print(const char *what, double *took_us)
{
    qsort(took_us, times, sizeof *took_us, compare);
    printf("%-46s %10.2f %10.2f\n", what, took_us[times / 2], took_us[times * 99 / 100]);
}

static void *nothing(void *argument)
{
    return argument;
}

/* Two threads take turns: each waits for the other. */
static void take_turns(int own)
{
    for (int at = 0; at < times; at++) {
        pthread_mutex_lock(&lock);
        while (turn != own)
            pthread_cond_wait(&changed, &lock);
        turn = !own;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
    }
}

static void *other(void *argument)
{
    take_turns(1);
    return argument;
}

static void *touch(void *argument)
{
    double *took_us = argument;
    for (int at = 0; at < times; at++) {
        double begun = now_us();
        pages[(long)at * PAGE] = 1;
        took_us[at] = now_us() - begun;
    }
    return NULL;
}

int main(int count, char **words)
{
    times = count > 1 ? atoi(words[1]) : 200;
    if (times < 1 || times > 100000) {
        fprintf(stderr, "pthreads: the word is how often to measure, 1 to 100000\n");
        return 2;
    }
    double *took_us = malloc(times * sizeof *took_us);
    pthread_t thread;
    printf("%-46s %10s %10s\n", "microseconds", "median", "p99");
    for (int at = 0; at < times; at++) {
        double begun = now_us();
        if (pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0)
            return 1;
        took_us[at] = now_us() - begun;
    }
    print("create a thread and join it", took_us);
    double begun = now_us();
    if (pthread_create(&thread, NULL, other, NULL) != 0)
        return 1;
    take_turns(0);
    pthread_join(thread, NULL);
    printf("%-46s %10.2f %10s\n", "give a turn to the other thread and get it back", (now_us() - begun) / times, "mean");
    pages = malloc((size_t)times * PAGE);
    if (pthread_create(&thread, NULL, touch, took_us) != 0)
        return 1;
    pthread_join(thread, NULL);
    print("a thread touches a new page", took_us);
    touch(took_us);
    print("main touches it after that", took_us);
    return 0;
}
