/* A child of fork has regions of its own, once the parent has given its threads back. */
#include <omp.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

static int threads(void) {
    int count = 0;
#pragma omp parallel num_threads(4) reduction(+ : count)
    count++;
    return count;
}

int main(void) {
    EQUAL(threads(), 4);
    EQUAL(omp_pause_resource(omp_pause_hard, omp_get_initial_device()), 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(threads() == 4 && threads() == 4 ? 7 : 1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    EQUAL(threads(), 4);
    puts("forks: right");
    return 0;
}
