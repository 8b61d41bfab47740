/* What threads rely on that share memory without calling the library: atomic operations that the compiler writes in place, flags that are
 * polled, and neighbours in a word that are written by different threads. */
#include <omp.h>
#include <stdint.h>

#include "check.h"

enum { TURNS = 3000, ROUNDS = 60, PAIRS = 40 };

static long counter;
static double sum;
static unsigned char taken[8 * TURNS];
static unsigned char neighbours[64];
static int said[2], seen[2];
static int wants[2], turn;
static long guarded;
static long parcel, ready;

/* Sums, which are compare-and-swap loops where the processor has no instruction for them; tickets; neighbours. */
static void counts(int threads) {
    long ticket = 0;
#pragma omp parallel num_threads(threads)
    {
        int me = omp_get_thread_num();
        for (int at = 0; at < TURNS; at++) {
            long mine;
#pragma omp atomic
            counter += 1;
#pragma omp atomic
            sum += 0.5;
#pragma omp atomic capture
            mine = ticket++;
            CHECK(mine < (long)sizeof taken && taken[mine] == 0);
            taken[mine] = 1;
            neighbours[me]++;
        }
    }
    EQUAL(counter, (long)threads * TURNS);
    EQUAL(sum * 2, (long)threads * TURNS);
    for (long at = 0; at < (long)threads * TURNS; at++) EQUAL(taken[at], 1);
    for (int at = 0; at < threads; at++) EQUAL(neighbours[at], TURNS % 256);
}

/* Two threads write, each to its own word, and then read the other's: one of them sees what the other wrote. */
static void stores(void) {
#pragma omp parallel num_threads(2)
    for (int round = 1; round <= ROUNDS; round++) {
        int me = omp_get_thread_num();
#pragma omp barrier
#pragma omp atomic write seq_cst
        said[me] = round;
        int other;
#pragma omp atomic read seq_cst
        other = said[1 - me];
        seen[me] = other;
#pragma omp barrier
#pragma omp single
        CHECK(seen[0] == round || seen[1] == round);
    }
}

/* Peterson's lock, of loads and stores alone. */
static void lock(void) {
#pragma omp parallel num_threads(2)
    for (int round = 0; round < ROUNDS; round++) {
        int me = omp_get_thread_num(), other, whose;
#pragma omp atomic write seq_cst
        wants[me] = 1;
#pragma omp atomic write seq_cst
        turn = 1 - me;
        do {
#pragma omp atomic read seq_cst
            other = wants[1 - me];
#pragma omp atomic read seq_cst
            whose = turn;
        } while (other && whose != me);
        guarded++;
#pragma omp atomic write seq_cst
        wants[me] = 0;
    }
    EQUAL(guarded, 2 * ROUNDS);
}

/* What was written before a flag is there once the flag is seen. */
static void flags(void) {
#pragma omp parallel num_threads(2)
    for (long at = 0; at < PAIRS; at++) {
        int me = omp_get_thread_num();
        long flag;
        do {
#pragma omp atomic read acquire
            flag = ready;
        } while (flag != 2 * at + me);
        if (me == 0) {
            parcel = at * at;
        } else {
            EQUAL(parcel, at * at);
            parcel = -1;
        }
#pragma omp atomic write release
        ready = 2 * at + me + 1;
    }
}

int main(void) {
    int threads = omp_get_max_threads();
    CHECK(threads <= 8);
    counts(threads);
    stores();
    lock();
    flags();
    puts("atomics: right");
    return 0;
}
