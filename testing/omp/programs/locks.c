/* Only one at a time: critical, atomic, reductions and locks. */
#include <complex.h>
#include <omp.h>
#include "check.h"

enum { ROUNDS = 500 };

int main(void) {
    int size = omp_get_max_threads();
    long plain = 0, one = 0, two = 0, locked = 0, nested = 0, tested = 0;
    omp_lock_t lock;
    omp_nest_lock_t nest;
    omp_init_lock(&lock);
    omp_init_nest_lock(&nest);
#pragma omp parallel
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp critical
        plain++;
#pragma omp critical(one)
        {
            one++;
#pragma omp critical(two)
            two++;
        }
        omp_set_lock(&lock);
        locked++;
        omp_unset_lock(&lock);
        omp_set_nest_lock(&nest);
        EQUAL(omp_test_nest_lock(&nest), 2);
        nested++;
        omp_unset_nest_lock(&nest);
        nested++;
        omp_unset_nest_lock(&nest);
        if (omp_test_lock(&lock)) {
            tested++;
            omp_unset_lock(&lock);
        }
    }
    EQUAL(plain, ROUNDS * size);
    EQUAL(one, ROUNDS * size);
    EQUAL(two, ROUNDS * size);
    EQUAL(locked, ROUNDS * size);
    EQUAL(nested, 2 * ROUNDS * size);
    CHECK(tested > 0);
    omp_destroy_lock(&lock);
    omp_destroy_nest_lock(&nest);

    long sum = 0, product = 1, bits = 0, least = 1000, most = -1;
    double complex turned = 0;
    long array[5] = {0};
    int every = 1, some = 0;
#pragma omp parallel for reduction(+ : sum, turned, array) reduction(* : product) reduction(| : bits) \
    reduction(min : least) reduction(max : most) reduction(&& : every) reduction(|| : some)
    for (int at = 1; at <= 100; at++) {
        sum += at;
        turned += at * I;
        array[at % 5] += at;
        if (at <= 10) product *= at;
        bits |= 1L << (at % 40);
        if (at < least) least = at;
        if (at > most) most = at;
        every = every && at > 0;
        some = some || at == 57;
    }
    EQUAL(sum, 5050);
    EQUAL(cimag(turned), 5050);
    EQUAL(product, 3628800);
    EQUAL(bits, (1L << 40) - 1);
    EQUAL(least, 1);
    EQUAL(most, 100);
    CHECK(every && some);
    for (int at = 0; at < 5; at++) EQUAL(array[at], at == 0 ? 1050 : 950 + 20 * at);
    long double wide = 0;
    int captured, last = -1, value = 0;
#pragma omp parallel for
    for (int at = 0; at < 100; at++) {
#pragma omp atomic
        wide += at;
    }
    CHECK(wide == 4950);
#pragma omp parallel for private(captured) reduction(max : last)
    for (int at = 0; at < 100; at++) {
#pragma omp atomic capture
        captured = value++;
        if (captured > last) last = captured;
    }
    EQUAL(last, 99);
    puts("locks: right");
    return 0;
}
