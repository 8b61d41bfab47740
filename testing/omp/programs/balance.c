/* Calls a marked function from several threads, as often as its first word says, and checks what it returns. The second
   word is the number of a node: on others the function also sleeps for a second. Says on how many nodes it was called and where most
   often, and waits for a line before it ends if it has a third word. */
#include <pthread.h>
#include <stdatomic.h>
#include <tombolo_migrate.h>
#include <unistd.h>
#include "check.h"

#define THREADS 3
#define TURNS 50000

static atomic_long called[64];
static int calls, fast;

static unsigned long turn(unsigned long value, int turns) {
    for (int index = 0; index < turns; index++) value = value * 6364136223846793005ul + 1442695040888963407ul;
    return value;
}

/* Calls itself once, so that a call is made in a call. */
TOMBOLO_MIGRATE(work)
unsigned long work(unsigned long value, int turns, int again) {
    atomic_fetch_add(&called[tombolo_node()], 1);
    value = turn(value, turns);
    if (tombolo_node() != fast) EQUAL(sleep(1), 0);
    return again ? work(value, turns, 0) + 1 : value;
}

/* The same in closed form: the constants of all turns at once. */
static unsigned long expected(unsigned long value, int turns) {
    unsigned long factor = 1, summand = 0, of = 6364136223846793005ul, and = 1442695040888963407ul;
    for (; turns > 0; turns /= 2) {
        if (turns % 2) factor *= of, summand = summand * of + and;
        and *= of + 1;
        of *= of;
    }
    return value * factor + summand;
}

static void *runs(void *argument) {
    unsigned long value = (unsigned long)argument;
    for (int call = 0; call < calls; call++) {
        int again = call % 4 == 0;
        unsigned long result = work(value, TURNS, again);
        CHECK(result == expected(again ? expected(value, TURNS) : value, TURNS) + again);
        value += result;
    }
    return NULL;
}

int main(int count, char **words) {
    pthread_t threads[THREADS];
    calls = count > 1 ? atoi(words[1]) : 20;
    fast = count > 2 ? atoi(words[2]) : 0;
    CHECK(expected(7, 1000) == turn(7, 1000));
    for (long thread = 0; thread < THREADS; thread++) CHECK(pthread_create(&threads[thread], NULL, runs, (void *)thread) == 0);
    for (int thread = 0; thread < THREADS; thread++) CHECK(pthread_join(threads[thread], NULL) == 0);
    runs((void *)99);
    EQUAL(tombolo_node(), 0);
    int nodes = 0, most = 0;
    long all = 0;
    for (int node = 0; node < tombolo_nodes(); node++) {
        long here = atomic_load(&called[node]);
        all += here;
        nodes += here > 0;
        if (here > atomic_load(&called[most])) most = node;
    }
    EQUAL(all, (THREADS + 1) * (calls + (calls + 3) / 4));
    printf("balance: right on %d nodes, most on node %d\n", nodes, most);
    fflush(stdout);
    char byte;
    if (count > 3) EQUAL(read(0, &byte, 1), 1);
    return 0;
}
