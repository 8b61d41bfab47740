// What C++ adds: constructors, destructors, exceptions within regions, iterators, members.
#include <atomic>
#include <stdexcept>
#include <vector>
#include "check.h"
#include <omp.h>

static std::atomic<long> alive{0}, made{0};

struct Counted {
    long value;
    explicit Counted(long value = 0) : value(value) { alive++, made++; }
    Counted(const Counted &other) : value(other.value) { alive++, made++; }
    Counted &operator=(const Counted &other) = default;
    ~Counted() { alive--; }
};

#pragma omp declare reduction(add : Counted : omp_out.value += omp_in.value) initializer(omp_priv = Counted())

static int caught() {
    int count = 0;
#pragma omp parallel reduction(+ : count)
    {
        try {
            throw std::runtime_error("within");
        } catch (const std::exception &) {
            count++;
        }
    }
    return count;
}

int main() {
    {
        Counted first(5), sum(0), last(0);
#pragma omp parallel firstprivate(first)
        {
            EQUAL(first.value, 5);
            first.value += omp_get_thread_num();
        }
#pragma omp parallel for reduction(add : sum) lastprivate(last) schedule(dynamic)
        for (long at = 0; at < 100; at++) {
            sum.value += at;
            last.value = at;
        }
        EQUAL(sum.value, 4950);
        EQUAL(last.value, 99);
        std::atomic<long> total{0};
#pragma omp parallel
#pragma omp single
        for (long at = 0; at < 200; at++) {
            Counted mine(at);
#pragma omp task firstprivate(mine) if (at % 3)
            total += mine.value;
        }
        EQUAL(total, 19900);
#pragma omp parallel
#pragma omp single
        {
            Counted mine(1);
#pragma omp taskloop firstprivate(mine) num_tasks(9)
            for (long at = 0; at < 100; at++) total += mine.value;
        }
        EQUAL(total, 20000);
        Counted copied(0);
#pragma omp parallel private(copied)
        {
#pragma omp single copyprivate(copied)
            copied.value = 42;
            EQUAL(copied.value, 42);
        }
    }
    EQUAL(alive, 0);
    CHECK(made > 0);
    EQUAL(caught(), omp_get_max_threads());
    std::vector<int> values(1000, 1);
    long sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(guided)
    for (auto at = values.begin(); at < values.end(); ++at) sum += *at;
    EQUAL(sum, 1000);
    puts("objects: right");
}
