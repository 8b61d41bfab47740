/* Ends as its first word says, for what becomes of the others then. */
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

static int deep(int left) {
    volatile char frame[4096];
    frame[0] = (char)left;
    return left ? deep(left - 1) + frame[0] : 0;
}

/* The number of a worker's own process, not of the program's. */
static pid_t own(void) {
    return (pid_t)syscall(SYS_getpid);
}

static int wide(void) {
    volatile char frame[1 << 30];
    frame[0] = 1;
    return frame[0];
}

static void at_end(void) {
    puts("at the end");
}

/* A region of a thread that the program creates: how many threads it had, and what they added up. */
static void *region(void *each) {
    static int threads;
    int sum = 0, add = *(int *)each;
#pragma omp parallel num_threads(3)
    {
#pragma omp atomic
        sum += add;
#pragma omp single
        threads = omp_get_num_threads();
    }
    EQUAL(sum, threads * add);
    return &threads;
}

int main(int count, char **words) {
    CHECK(count == 2);
    const char *how = words[1];
    if (!strcmp(how, "exit") || !strcmp(how, "gone")) atexit(at_end);
    pid_t process = own();
    int others = 0;
    if (!strcmp(how, "heap")) {
        char *block;
        while ((block = malloc(1 << 20))) block[0] = 1;
        puts("no memory");
        return 3;
    }
    if (!strcmp(how, "blocks")) {
        while (malloc(24)) {}
        puts("no memory");
        return 3;
    }
    if (!strcmp(how, "tasks")) {
        static int each;
#pragma omp parallel num_threads(3)
#pragma omp single
        for (;;) {
#pragma omp task depend(inout : each)
            pause();
        }
    }
    if (!strcmp(how, "huge")) {
        CHECK(!malloc((size_t)1 << 60));
        return 3;
    }
    if (!strcmp(how, "created")) {
        for (int each = 1; each < 4; each++) {
            pthread_t thread;
            void *threads;
            CHECK(!pthread_create(&thread, NULL, region, &each) && !pthread_join(thread, &threads));
            printf("%d threads\n", *(int *)threads);
        }
        return 0;
    }
    if (!strcmp(how, "children")) {
        /* After a region, so that there are other threads. */
#pragma omp parallel num_threads(3)
        {}
        for (int number = 0; number < 20; number++) {
            int status;
            pid_t child = number % 2 ? vfork() : fork();
            if (child == 0) _exit(number);
            CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
            EQUAL(WEXITSTATUS(status), number);
        }
        return 0;
    }
    if (!strcmp(how, "main-deep")) return deep(1000000);
    if (!strcmp(how, "main-wide")) return wide();
    FILE *file = NULL;
    if (!strcmp(how, "file")) CHECK((file = tmpfile()) && (file = fdopen(dup(fileno(file)), "w+")));
    if (!strcmp(how, "fork")) puts("before");
    if (!strcmp(how, "fork")) return fork() == 0 ? 8 : 9;
#pragma omp parallel num_threads(3)
    {
        if (own() != process) {
#pragma omp atomic
            others++;
        }
        if (omp_get_thread_num() == 2) {
            if (!strcmp(how, "killed")) syscall(SYS_kill, own(), SIGKILL);
            if (!strcmp(how, "exit")) exit(7);
            if (!strcmp(how, "gone")) _exit(6);
            if (!strcmp(how, "stack")) printf("%d\n", deep(1000000));
            /* 1 MiB: less than a system gives by default. */
            if (!strcmp(how, "frames")) printf("%d\n", deep(250));
            if (!strcmp(how, "fault")) *(volatile int *)64 = 1;
            if (!strcmp(how, "prints")) puts("printed by a worker");
        }
        for (int line = 0; file && line < 2000; line++) fprintf(file, "%06d\n", line);
#pragma omp barrier
    }
    if (file) {
        long bytes = (fflush(file), fseek(file, 0, SEEK_END), ftell(file));
        EQUAL(bytes, 3 * 2000 * 7);
    }
    printf("%d of 2 workers have a process of their own\n", others);
    if (!strcmp(how, "shell")) return system("echo out of a shell");
    if (!strcmp(how, "main")) exit(5);
    return 0;
}
