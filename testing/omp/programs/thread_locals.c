/* Thread-local variables, which a thread has on every node. The word: what to do. */
#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <tombolo_migrate.h>
#include "check.h"

#define THREADS 6
#define ROUNDS 50

_Thread_local int first = 7;
static __thread long zeros[100];
static _Thread_local _Alignas(64) char aligned[64] = "of this thread";
static _Thread_local int *itself = NULL;
extern _Thread_local struct pair { int number; const char *text; } pair;
_Thread_local struct pair pair = { 3, "a pair" };
static int kept[2000];
#pragma omp threadprivate(kept)

static int *of_thread[THREADS];
static pthread_barrier_t all;
static unsigned long seen;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int *calls(void) {
    static _Thread_local int count = 40;
    return &count;
}

/* What a thread has that has changed nothing. */
static void are_new(void) {
    EQUAL(first, 7);
    for (int at = 0; at < 100; at++) EQUAL(zeros[at], 0);
    CHECK(strcmp(aligned, "of this thread") == 0 && (uintptr_t)aligned % 64 == 0);
    CHECK(itself == NULL && pair.number == 3 && strcmp(pair.text, "a pair") == 0);
    EQUAL(*calls(), 40);
}

/* On another node: they are the caller's, by name and by address. */
TOMBOLO_MIGRATE(look)
int look(int *of_caller, long *zeros_of_caller, int depth) {
    CHECK(&first == of_caller && zeros == zeros_of_caller && itself == of_caller);
    int before = first, node = tombolo_node();
    first++, zeros[99]++, pair.number++, ++*calls();
    EQUAL(*of_caller, before + 1);
    if (depth > 0) {
        EQUAL(tombolo_migrate((node + 1) % tombolo_nodes()), 0);
        look(&first, zeros, depth - 1);
        EQUAL(tombolo_node(), node);
        CHECK(&first == of_caller);
        EQUAL(first, before + 1 + depth);
    }
    __atomic_fetch_or(&seen, 1ul << node, __ATOMIC_SEQ_CST);
    return first;
}

static void moves(void) {
    are_new();
    itself = &first;
    for (int round = 1; round <= ROUNDS; round++) {
        EQUAL(tombolo_migrate(round % tombolo_nodes()), 0);
        EQUAL(look(&first, zeros, round % 5), first);
    }
    EQUAL(tombolo_migrate(0), 0);
    /* As often as calls were made: 1 to 5 in turn. */
    EQUAL(first, 7 + 3 * ROUNDS);
    EQUAL(zeros[99], 3 * ROUNDS);
    EQUAL(pair.number, 3 + 3 * ROUNDS);
    EQUAL(*calls(), 40 + 3 * ROUNDS);
    EQUAL(errno = 0, 0);
}

static void *run(void *argument) {
    int number = (int)(intptr_t)argument;
    __atomic_fetch_or(&seen, 1ul << tombolo_node(), __ATOMIC_SEQ_CST);
    are_new();
    itself = &first;
    first = 100 * number;
    of_thread[number] = &first;
    pthread_barrier_wait(&all);
    for (int other = 0; other < THREADS; other++) {
        EQUAL(*of_thread[other], 100 * other);
        CHECK((of_thread[other] == &first) == (other == number));
    }
    pthread_barrier_wait(&all);
    /* One thread after the other counts in the variables of all, while they move. */
    for (int round = 0; round < ROUNDS; round++) {
        EQUAL(tombolo_migrate((number + round) % tombolo_nodes()), 0);
        EQUAL(pthread_mutex_lock(&lock), 0);
        look(&first, zeros, round % 3);
        for (int other = 0; other < THREADS; other++) __atomic_fetch_add(of_thread[other], 1, __ATOMIC_SEQ_CST);
        EQUAL(pthread_mutex_unlock(&lock), 0);
    }
    pthread_barrier_wait(&all);
    /* Itself in depths 0, 1 and 2 in turn: 1 to 3 times. */
    long of_itself = 0;
    for (int round = 0; round < ROUNDS; round++) of_itself += round % 3 + 1;
    EQUAL(first, 100 * number + of_itself + ROUNDS * THREADS);
    EQUAL(zeros[99], of_itself);
    pthread_barrier_wait(&all);
    return NULL;
}

static void threads(void) {
    EQUAL(pthread_barrier_init(&all, NULL, THREADS), 0);
    first = -1, zeros[0] = -1, *calls() = -1;
    /* The second threads have the memory of the first. */
    for (int again = 0; again < 2; again++) {
        pthread_t started[THREADS];
        for (long number = 0; number < THREADS; number++)
            EQUAL(pthread_create(&started[number], NULL, run, (void *)number), 0);
        for (int number = 0; number < THREADS; number++) EQUAL(pthread_join(started[number], NULL), 0);
    }
    EQUAL(first, -1);
}

static void regions(void) {
    int wrong = 0, count = 0;
    int *of_number[64];
    for (int at = 0; at < 2000; at++) kept[at] = at;
    first = 1000;
#pragma omp parallel copyin(kept) num_threads(4)
    {
        int me = omp_get_thread_num();
        for (int at = 0; at < 2000; at++)
            if (kept[at] != at) __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
        if (me != 0) first = 7;
        first += me, kept[0] = me;
        of_number[me] = &first;
        __atomic_fetch_or(&seen, 1ul << tombolo_node(), __ATOMIC_SEQ_CST);
#pragma omp single
        count = omp_get_num_threads();
        for (int other = 0; other < count; other++)
            if (*of_number[other] != (other == 0 ? 1000 : 7) + other) __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
    }
    /* A thread of a team of the same size has what it had. */
#pragma omp parallel num_threads(4)
    if (kept[0] != omp_get_thread_num() || of_number[omp_get_thread_num()] != &first)
        __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
    EQUAL(wrong, 0);
}

int main(int count, char **words) {
    const char *word = count > 1 ? words[1] : "moves";
    if (strcmp(word, "moves") == 0) moves();
    if (strcmp(word, "threads") == 0) threads();
    if (strcmp(word, "regions") == 0) regions();
    printf("%s: right on %d nodes\n", word, __builtin_popcountl(seen));
    return 0;
}
