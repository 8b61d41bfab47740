/* Threads of POSIX that migrate at random and meet at what POSIX has for it. The words: how many threads, how often each moves. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <tombolo_migrate.h>
#include "check.h"

#define MOST 200

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, again;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t all;
static sem_t room;
static int nodes, moves, threads;
static long counted, twice_counted, inside, most_inside;
/* A queue of one place, between threads that make and threads that take. */
static int full, made, taken;
static long made_sum, taken_sum;

TOMBOLO_MIGRATE(count_up)
long count_up(int times) {
    for (int turn = 0; turn < times; turn++) {
        EQUAL(pthread_mutex_lock(&lock), 0);
        counted++;
        EQUAL(pthread_mutex_unlock(&lock), 0);
    }
    return times;
}

/* Holds the lock while it moves, and takes it again there. */
TOMBOLO_MIGRATE(inner)
void inner(void) {
    EQUAL(pthread_mutex_lock(&again), 0);
    twice_counted++;
    EQUAL(pthread_mutex_unlock(&again), 0);
}

TOMBOLO_MIGRATE(outer)
void outer(int to) {
    EQUAL(pthread_mutex_lock(&again), 0);
    tombolo_migrate(to);
    inner();
    twice_counted++;
    EQUAL(pthread_mutex_unlock(&again), 0);
}

TOMBOLO_MIGRATE(enter)
void enter(void) {
    EQUAL(sem_wait(&room), 0);
    long now = __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST), most = __atomic_load_n(&most_inside, __ATOMIC_SEQ_CST);
    while (most < now && !__atomic_compare_exchange_n(&most_inside, &most, now, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
    __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    EQUAL(sem_post(&room), 0);
}

TOMBOLO_MIGRATE(pass)
void pass(int makes) {
    EQUAL(pthread_mutex_lock(&lock), 0);
    while (full == makes) EQUAL(pthread_cond_wait(&changed, &lock), 0);
    if (makes) made_sum += full = 1, made++;
    else taken_sum += full, full = 0, taken++;
    EQUAL(pthread_cond_broadcast(&changed), 0);
    EQUAL(pthread_mutex_unlock(&lock), 0);
}

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static void *run(void *argument) {
    long number = (long)argument, done = 0;
    uint64_t state = (uint64_t)number * 2654435761u + 1;
    /* None moves, which takes memory, before all are created. */
    pthread_barrier_wait(&all);
    for (int move = 0; move < moves; move++) {
        EQUAL(tombolo_migrate((int)(next(&state) % (uint64_t)nodes)), 0);
        done += count_up(5);
        outer((int)(next(&state) % (uint64_t)nodes));
        enter();
        pass(number % 2 == 0);
        if (pthread_barrier_wait(&all) == PTHREAD_BARRIER_SERIAL_THREAD) {
            EQUAL(counted, 5L * threads * (move + 1));
            EQUAL(twice_counted, 2L * threads * (move + 1));
        }
        pthread_barrier_wait(&all);
    }
    return (void *)done;
}

/* A thread that is not joined. */
static void *post(void *argument) {
    tombolo_migrate(nodes - 1);
    EQUAL(count_up(1), 1);
    EQUAL(sem_post(argument), 0);
    return NULL;
}

static void detached(int times) {
    sem_t ended;
    pthread_attr_t attributes;
    sem_init(&ended, 0, 0);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 128 << 10);
    long before = counted;
    for (int turn = 0; turn < times; turn++) {
        pthread_t thread;
        EQUAL(pthread_create(&thread, &attributes, post, &ended), 0);
        EQUAL(sem_wait(&ended), 0);
    }
    EQUAL(counted - before, times);
}

int main(int count, char **words) {
    threads = count > 1 ? atoi(words[1]) : 4, moves = count > 2 ? atoi(words[2]) : 20;
    CHECK(threads <= MOST && threads % 2 == 0);
    nodes = tombolo_nodes();
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&again, &recursive);
    EQUAL(pthread_barrier_init(&all, NULL, (unsigned)threads), 0);
    EQUAL(sem_init(&room, 0, 2), 0);
    pthread_t started[MOST];
    /* Twice, so that stacks are used again. */
    for (int round = 0; round < 2; round++) {
        counted = twice_counted = 0;
        for (long number = 0; number < threads; number++)
            CHECK(pthread_create(&started[number], NULL, run, (void *)number) == 0);
        long sum = 0;
        for (int number = 0; number < threads; number++) {
            void *done;
            EQUAL(pthread_join(started[number], &done), 0);
            sum += (long)done;
        }
        EQUAL(sum, 5L * threads * moves);
    }
    CHECK(made == taken && made_sum == taken_sum && most_inside <= 2);
    detached(moves);
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    EQUAL(pthread_mutex_lock(&lock), 0);
    EQUAL(pthread_cond_timedwait(&changed, &lock, &soon), ETIMEDOUT);
    EQUAL(pthread_mutex_trylock(&lock), EBUSY);
    EQUAL(pthread_mutex_timedlock(&lock, &soon), ETIMEDOUT);
    EQUAL(pthread_mutex_unlock(&lock), 0);
    EQUAL(pthread_mutex_unlock(&again), EPERM);
    EQUAL(sem_trywait(&room), 0);
    printf("threads: right on %d nodes\n", nodes);
    return 0;
}
