/* Order: ordered regions, iterations that wait for others, and scans. */
#include <omp.h>
#include "check.h"

enum { MOST = 200 };

#define IN_ORDER(CLAUSE) \
    do { \
        int next = 0; \
        _Pragma(CLAUSE) for (int at = 0; at < MOST; at++) { \
            if (at % 3 == 2) continue; \
            _Pragma("omp ordered") { \
                CHECK(at >= next); \
                next = at + 1; \
            } \
        } \
        EQUAL(next, MOST); \
    } while (0)

static int cells[40][30][3];

static void grid(void) {
    for (int one = 0; one < 40; one++)
        for (int two = 0; two < 30; two++) cells[one][two][0] = 0;
#pragma omp parallel for ordered(2) schedule(static)
    for (int one = 0; one < 40; one++)
        for (int two = 0; two < 30; two++) {
#pragma omp ordered depend(sink : one - 1, two) depend(sink : one, two - 1)
            int above = one > 0 ? cells[one - 1][two][0] : 0, left = two > 0 ? cells[one][two - 1][0] : 0;
            cells[one][two][0] = (above > left ? above : left) + 1;
#pragma omp ordered depend(source)
        }
    for (int one = 0; one < 40; one++)
        for (int two = 0; two < 30; two++) EQUAL(cells[one][two][0], one + two + 1);
}

static void chain(void) {
    long values[MOST] = {1};
#pragma omp parallel for ordered(1) schedule(dynamic, 3)
    for (int at = 1; at < MOST; at++) {
#pragma omp ordered depend(sink : at - 1)
        values[at] = values[at - 1] + at;
#pragma omp ordered depend(source)
    }
    EQUAL(values[MOST - 1], 1 + (long)MOST * (MOST - 1) / 2);
    unsigned long long far[MOST] = {0};
#pragma omp parallel for ordered(1) schedule(guided)
    for (unsigned long long at = 5; at < MOST; at++) {
#pragma omp ordered depend(sink : at - 5)
        far[at] = far[at - 5] + 1;
#pragma omp ordered depend(source)
    }
    EQUAL(far[MOST - 1], (MOST - 1) / 5);
}

/* More loops than arguments that are passed in registers. */
static int deep[3][2][2][2][2][2][2][2][2];

static void depths(void) {
#pragma omp parallel for ordered(9) schedule(static, 1)
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 2; b++)
            for (int c = 0; c < 2; c++)
                for (int d = 0; d < 2; d++)
                    for (int e = 0; e < 2; e++)
                        for (int f = 0; f < 2; f++)
                            for (int g = 0; g < 2; g++)
                                for (int h = 0; h < 2; h++)
                                    for (int i = 0; i < 2; i++) {
#pragma omp ordered depend(sink : a - 1, b, c, d, e, f, g, h, i)
                                        int before = a > 0 ? deep[a - 1][b][c][d][e][f][g][h][i] : 0;
                                        deep[a][b][c][d][e][f][g][h][i] = before + 1;
#pragma omp ordered depend(source)
                                    }
    for (int a = 0; a < 3; a++) EQUAL(deep[a][1][0][1][0][1][0][1][1], a + 1);
}

/* Overwrites stack that the next function uses. */
static __attribute__((noinline)) void disturb(void) {
    volatile char bytes[2000];
    for (unsigned at = 0; at < sizeof bytes; at++) bytes[at] = (char)0xf1;
}

static __attribute__((noinline)) int nest(int outer, int inner) {
    int count = 0;
#pragma omp for collapse(2) ordered(4)
    for (int a = 0; a < outer; a++)
        for (int b = 0; b < inner; b++)
            for (int c = 0; c < inner; c++)
                for (int d = 0; d < inner; d++) {
#pragma omp ordered depend(sink : a - 1, b, c, d)
                    count++;
#pragma omp ordered depend(source)
                }
    return count;
}

/* A nest without iterations, and a task reduction over a nest. */
static void nests(void) {
    int count = 0;
#pragma omp parallel reduction(+ : count)
    {
        disturb();
        count += nest(0, 4);
    }
    EQUAL(count, 0);
    static long sums[2000];
    for (int round = 0; round < 50; round++) {
#pragma omp parallel
#pragma omp for ordered(1) reduction(task, + : sums) schedule(static, 1)
        for (int at = 0; at < 16; at++) {
            sums[0]++;
#pragma omp ordered depend(sink : at - 1)
#pragma omp ordered depend(source)
        }
    }
    EQUAL(sums[0], 50 * 16);
}

static void scans(void) {
    int sums[MOST], total = 0;
#pragma omp parallel for reduction(inscan, + : total)
    for (int at = 0; at < MOST; at++) {
        total += at;
#pragma omp scan inclusive(total)
        sums[at] = total;
    }
    for (int at = 0; at < MOST; at++) EQUAL(sums[at], at * (at + 1) / 2);
}

int main(void) {
    IN_ORDER("omp parallel for ordered schedule(static)");
    IN_ORDER("omp parallel for ordered schedule(static, 1)");
    IN_ORDER("omp parallel for ordered schedule(dynamic)");
    IN_ORDER("omp parallel for ordered schedule(dynamic, 4)");
    IN_ORDER("omp parallel for ordered schedule(guided)");
    IN_ORDER("omp parallel for ordered schedule(runtime)");
    grid();
    chain();
    depths();
    nests();
    scans();
    puts("order: right");
    return 0;
}
