/* Calls of POSIX's threads, by threads that may run on any node from their beginning. The word: what to do. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <tombolo_migrate.h>
#include "check.h"

#define THREADS 6

static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all;
static pthread_t started[THREADS];
static int begun, onces, cleaned, reading, most_reading, writes;
static unsigned long seen;

static void begin_once(void) {
    usleep(1000);
    onces++;
}

static void clean(void *argument) {
    EQUAL(pthread_mutex_lock(&lock), 0);
    cleaned = cleaned * 10 + (int)(intptr_t)argument;
    EQUAL(pthread_mutex_unlock(&lock), 0);
}

__attribute__((noinline)) static void deep(int depth, long value) {
    if (depth == 0) pthread_exit((void *)value);
    if (depth < 100) deep(depth - 1, value);
    CHECK(depth < 0);
}

static void *run(void *argument) {
    long number = (long)argument;
    EQUAL(pthread_once(&once, begin_once), 0);
    EQUAL(onces, 1);
    pthread_barrier_wait(&all);
    CHECK(pthread_equal(pthread_self(), started[number]));
    EQUAL(pthread_mutex_lock(&lock), 0);
    begun++, seen |= 1ul << tombolo_node();
    EQUAL(pthread_mutex_unlock(&lock), 0);
    for (int turn = 0; turn < 20; turn++) {
        EQUAL(pthread_rwlock_rdlock(&shared), 0);
        int now = __atomic_add_fetch(&reading, 1, __ATOMIC_SEQ_CST), before = writes;
        if (now > most_reading) most_reading = now;
        EQUAL(pthread_rwlock_trywrlock(&shared), EBUSY);
        EQUAL(writes, before);
        __atomic_sub_fetch(&reading, 1, __ATOMIC_SEQ_CST);
        EQUAL(pthread_rwlock_unlock(&shared), 0);
        EQUAL(pthread_rwlock_wrlock(&shared), 0);
        EQUAL(__atomic_load_n(&reading, __ATOMIC_SEQ_CST), 0);
        EQUAL(pthread_rwlock_tryrdlock(&shared), EBUSY);
        writes++;
        EQUAL(pthread_rwlock_unlock(&shared), 0);
    }
    if (number == 0) {
        pthread_cleanup_push(clean, (void *)1);
        pthread_cleanup_push(clean, (void *)2);
        deep(20, 100);
        pthread_cleanup_pop(0);
        pthread_cleanup_pop(0);
    }
    if (number % 2) pthread_exit((void *)(number + 100));
    return (void *)(number + 100);
}

/* Threads that create threads, which no thread joins. */
static sem_t ended;

static void *leaf(void *argument) {
    EQUAL(pthread_detach(pthread_self()), 0);
    EQUAL(sem_post(argument), 0);
    return NULL;
}

static void *branch(void *argument) {
    for (int turn = 0; turn < 3; turn++) {
        pthread_t thread;
        EQUAL(pthread_create(&thread, NULL, leaf, argument), 0);
    }
    return argument;
}

static void *say_last(void *argument) {
    usleep(20000);
    printf("last: right\n");
    return argument;
}

static void *fail(void *argument) {
    _exit((int)(intptr_t)argument);
}

static void *nothing(void *argument) {
    return argument;
}

/* Pages of addresses that this process has. */
static long pages(void) {
    long all = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld", &all) == 1);
    fclose(file);
    return all;
}

/* Threads that have ended have left nothing. */
static int many(void) {
    long before = 0;
    for (int turn = 0; turn < 2100; turn++) {
        if (turn == 100) before = pages();
        pthread_t thread;
        EQUAL(pthread_create(&thread, NULL, nothing, NULL), 0);
        EQUAL(pthread_join(thread, NULL), 0);
    }
    CHECK(pages() - before < 2000);
    puts("many: right");
    return 0;
}

int main(int count, char **words) {
    const char *word = count > 1 ? words[1] : "calls";
    if (strcmp(word, "last") == 0) {
        pthread_t thread;
        EQUAL(pthread_create(&thread, NULL, say_last, NULL), 0);
        pthread_exit(NULL);
    }
    if (strcmp(word, "many") == 0) return many();
    if (strcmp(word, "fail") == 0) {
        EQUAL(pthread_create(&started[0], NULL, fail, (void *)9), 0);
        pthread_join(started[0], NULL);
        return 1;
    }
    EQUAL(pthread_barrier_init(&all, NULL, THREADS + 1), 0);
    for (int round = 0; round < 2; round++) {
        begun = cleaned = 0;
        for (long number = 0; number < THREADS; number++) EQUAL(pthread_create(&started[number], NULL, run, (void *)number), 0);
        pthread_barrier_wait(&all);
        for (long number = 0; number < THREADS; number++) {
            void *result;
            EQUAL(pthread_join(started[number], &result), 0);
            EQUAL((long)result, number + 100);
        }
        EQUAL(begun, THREADS);
        EQUAL(cleaned, 21);
    }
    EQUAL(writes, 2 * THREADS * 20);
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    EQUAL(pthread_rwlock_timedwrlock(&shared, &soon), 0);
    CHECK(pthread_rwlock_timedrdlock(&shared, &soon) != 0);
    EQUAL(pthread_rwlock_unlock(&shared), 0);
    EQUAL(sem_init(&ended, 0, 0), 0);
    pthread_t other;
    void *result;
    EQUAL(pthread_create(&other, NULL, branch, &ended), 0);
    EQUAL(pthread_join(other, &result), 0);
    CHECK(result == &ended);
    for (int turn = 0; turn < 3; turn++) EQUAL(sem_wait(&ended), 0);
    printf("calls: right on nodes");
    for (int node = 0; node < tombolo_nodes(); node++)
        if (seen >> node & 1) printf(" %d", node);
    printf("\n");
    return 0;
}
