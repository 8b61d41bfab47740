/* Dependences: tasks of a parent in the order that their data asks for. */
#include <omp.h>
#include "check.h"

static void chain(void) {
    int value = 0, readers = 0;
#pragma omp parallel
#pragma omp single
    for (int round = 0; round < 200; round++) {
#pragma omp task depend(out : value) shared(value)
        {
            CHECK(readers == 3 * round);
            value = round;
        }
        for (int reader = 0; reader < 3; reader++)
#pragma omp task depend(in : value) shared(value, readers) firstprivate(round)
        {
            EQUAL(value, round);
#pragma omp atomic
            readers++;
        }
    }
    EQUAL(readers, 600);
}

enum { SIDE = 24 };
static int cells[SIDE][SIDE];

static void wave(void) {
#pragma omp parallel
#pragma omp single
    {
        for (int one = 0; one < SIDE; one++)
            for (int two = 0; two < SIDE; two++)
#pragma omp task depend(in : cells[one ? one - 1 : 0][two], cells[one][two ? two - 1 : 0]) depend(out : cells[one][two])
            {
                int above = one ? cells[one - 1][two] : 0, left = two ? cells[one][two - 1] : 0;
                if (one) CHECK(above == one + two);
                if (two) CHECK(left == one + two);
                cells[one][two] = one + two + 1;
            }
    }
    EQUAL(cells[SIDE - 1][SIDE - 1], 2 * SIDE - 1);
}

static void others(void) {
    int data = 0, sum = 0;
    omp_depend_t object;
#pragma omp parallel
#pragma omp single
    {
#pragma omp depobj(object) depend(inout : data)
#pragma omp task depend(depobj : object) shared(data)
        data = 1;
#pragma omp task depend(depobj : object) shared(data)
        data *= 10;
#pragma omp depobj(object) destroy
        for (int at = 0; at < 20; at++)
#pragma omp task depend(mutexinoutset : data) shared(data)
            data += 1;
#pragma omp taskwait depend(in : data)
        EQUAL(data, 30);
#pragma omp task depend(inout : data) shared(data)
        data++;
#pragma omp task if (0) depend(in : data) shared(data, sum)
        {
            EQUAL(data, 31);
            sum = data;
        }
        EQUAL(sum, 31);
        int *none = NULL;
#pragma omp task depend(iterator(at = 0 : 10), out : cells[at][0])
        cells[3][0] = 77;
#pragma omp task depend(in : cells[3][0], *none) shared(sum)
        sum = cells[3][0];
#pragma omp taskwait
        EQUAL(sum, 77);
        int count = -1;
#pragma omp task depend(iterator(at = 0 : count), out : cells[at][0]) shared(sum)
        sum++;
#pragma omp taskwait
        EQUAL(sum, 78);
    }
}

int main(void) {
    chain();
    wave();
    others();
    puts("depend: right");
    return 0;
}
