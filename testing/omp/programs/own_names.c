/* Functions of the program whose names the C library has, and ISO C does not reserve: nothing else calls them. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static int calls;

#define OWN(name) \
    int name(int number) { \
        calls++; \
        return number; \
    }
OWN(read)
OWN(write)
OWN(open)
OWN(close)
OWN(poll)
OWN(kill)
OWN(connect)
OWN(getpid)

int main(void) {
    int threads = 0, sum = 0;
    for (int turn = 0; turn < 3; turn++) {
#pragma omp parallel reduction(+ : threads)
        {
            threads++;
#pragma omp critical
            sum += read(1) + write(1) + open(1) + close(1) + poll(1) + kill(1) + connect(1) + getpid(1);
        }
    }
    if (sum != 8 * threads || calls != sum) {
        fprintf(stderr, "%d calls, %d made, by %d threads\n", calls, sum, threads);
        return 1;
    }
    puts("own names: right");
    return 0;
}
