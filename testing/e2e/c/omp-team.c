/* A team of two for tests: the program itself, and one worker in a process of its own, which may be the build of the same image for
 * another processor. They share the program's variables, in place, and an arena with the heap and the main thread's stack. It has what
 * small programs need of OpenMP and no more; it shows that builds fit each other, and is no run-time.
 *
 * TEAM_WORKER has the words that start the worker; without it the team is the program alone. The program's main is called
 * program_main (-Dmain=program_main). */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

extern char __tombolo_omp_shared_start[], __tombolo_omp_shared_end[];
extern const unsigned char __tombolo_omp_layout_id[32];
extern int program_main(int, char **);

#define ARENA ((char *)0x100000000000)
#define ARENA_BYTES (256l << 20)
#define STACK_BYTES (64l << 20)
#define PATIENCE_SECONDS 120

/* All of it is shared: it is the program's. */
static struct {
    unsigned char layout[32];
    void (*region)(void *);
    void *frame;
    int started, ended, lock, arrived, epoch, single, quit;
    long allocated;
} team;
static int words_count, status;
static char **words_given;

/* The worker's process, in the program's own; it is the program's thread that waits. */
static _Thread_local pid_t worker;
static pid_t started_worker;
static _Thread_local int self;
static _Thread_local int singles;

static void fail(const char *what)
{
    fprintf(stderr, "team: worker %d: %s\n", self, what);
    _exit(97);
}

/* Sleeps while a word has a value. */
static void wait_while(int *word, int value)
{
    struct timespec now, second = { 1, 0 };
    clock_gettime(CLOCK_MONOTONIC, &now);
    long end = now.tv_sec + PATIENCE_SECONDS;
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec > end || (worker > 0 && waitpid(worker, NULL, WNOHANG) != 0))
            fail("the other one does not come");
        syscall(SYS_futex, word, 0 /* FUTEX_WAIT */, value, &second, NULL, 0);
    }
}

static void change(int *word)
{
    __atomic_add_fetch(word, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, word, 1 /* FUTEX_WAKE */, 1 << 20, NULL, NULL, 0);
}

static int members(void) { return getenv("TEAM_WORKER") || getenv("TEAM_MEMORY") ? 2 : 1; }

/* OpenMP, as GCC calls it. */
static _Thread_local bool inside;
int omp_get_num_threads(void) { return inside ? members() : 1; }
int omp_get_max_threads(void) { return members(); }
int omp_get_thread_num(void) { return inside ? self : 0; }

void GOMP_barrier(void)
{
    if (omp_get_num_threads() == 1)
        return;
    int epoch = __atomic_load_n(&team.epoch, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&team.arrived, 1, __ATOMIC_ACQ_REL) == 2) {
        team.arrived = 0;
        change(&team.epoch);
    } else {
        wait_while(&team.epoch, epoch);
    }
}

void GOMP_parallel(void (*region)(void *), void *frame, unsigned threads, unsigned flags)
{
    (void)flags;
    if (members() == 1 || threads == 1 || inside) {
        region(frame);
        return;
    }
    team.region = region;
    team.frame = frame;
    team.single = 0;
    singles = 0;
    int ended = team.ended;
    change(&team.started);
    inside = true;
    region(frame);
    inside = false;
    wait_while(&team.ended, ended);
}

bool GOMP_single_start(void)
{
    int mine = singles++;
    return __atomic_compare_exchange_n(&team.single, &mine, singles, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED) || members() == 1;
}

void GOMP_critical_start(void)
{
    while (__atomic_exchange_n(&team.lock, 1, __ATOMIC_ACQUIRE))
        syscall(SYS_sched_yield);
}
void GOMP_critical_end(void) { __atomic_store_n(&team.lock, 0, __ATOMIC_RELEASE); }
void GOMP_atomic_start(void) { GOMP_critical_start(); }
void GOMP_atomic_end(void) { GOMP_critical_end(); }

/* A heap that only grows, in the arena. The worker allocates in a part of its own. */
static _Thread_local long worker_allocated;
void *malloc(size_t bytes)
{
    bytes = (bytes + 63) & -64l;
    long at = self ? STACK_BYTES + (128l << 20) + __atomic_fetch_add(&worker_allocated, bytes + 64, __ATOMIC_RELAXED)
                   : STACK_BYTES + __atomic_fetch_add(&team.allocated, bytes + 64, __ATOMIC_RELAXED);
    if (at + (long)bytes + 64 > ARENA_BYTES)
        return NULL;
    memcpy(ARENA + at, &bytes, sizeof bytes);
    return ARENA + at + 64;
}
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t size)
{
    void *p = malloc(n * size);
    return p ? memset(p, 0, n * size) : p;
}
void *realloc(void *old, size_t bytes)
{
    void *p = malloc(bytes);
    if (p && old) {
        size_t had;
        memcpy(&had, (char *)old - 64, sizeof had);
        memcpy(p, old, had < bytes ? had : bytes);
    }
    return p;
}

static void map(int memory, char *at, long bytes, long offset)
{
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, offset) != at)
        fail("cannot map what is shared");
}

static void *run_program(void *nothing)
{
    worker = started_worker;
    status = program_main(words_count, words_given);
    return nothing;
}

/* The worker: its thread-locals and its stack are its own, all else is where it is for everybody. */
static int work(int memory, long shared)
{
    unsigned char mine[32];
    memcpy(mine, __tombolo_omp_layout_id, sizeof mine);
    map(memory, __tombolo_omp_shared_start, shared, 0);
    map(memory, ARENA, ARENA_BYTES, shared);
    self = 1;
    inside = true;
    if (memcmp(mine, team.layout, sizeof mine))
        fail("this is a build of another image");
#ifdef __aarch64__
    fprintf(stderr, "worker on aarch64\n");
#else
    fprintf(stderr, "worker on x86_64\n");
#endif
    for (int seen = 0;; seen++) {
        wait_while(&team.started, seen);
        if (team.quit)
            return 0;
        singles = 0;
        team.region(team.frame);
        change(&team.ended);
    }
}

int main(int count, char **words)
{
    long shared = __tombolo_omp_shared_end - __tombolo_omp_shared_start;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getenv("TEAM_MEMORY"))
        return work(atoi(getenv("TEAM_MEMORY")), shared);
    int memory = memfd_create("team", 0);
    words_count = count;
    words_given = words;
    memcpy(team.layout, __tombolo_omp_layout_id, 32);
    if (memory < 0 || ftruncate(memory, shared + ARENA_BYTES) || pwrite(memory, __tombolo_omp_shared_start, shared, 0) != shared)
        fail("no memory to share");
    map(memory, __tombolo_omp_shared_start, shared, 0);
    map(memory, ARENA, ARENA_BYTES, shared);
    pid_t child = members() == 2 ? fork() : -1;
    /* Not written by the child: the variable is shared. */
    if (child > 0)
        started_worker = worker = child;
    if (child == 0) {
        char *list[8] = { 0 }, text[16], *rest = NULL;
        for (int i = 0; i < 7 && (list[i] = strtok_r(i ? NULL : getenv("TEAM_WORKER"), " ", &rest)); i++) {}
        snprintf(text, sizeof text, "%d", memory);
        setenv("TEAM_MEMORY", text, 1);
        execv(list[0], list);
        _exit(98);
    }
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, ARENA, STACK_BYTES);
    if (pthread_create(&thread, &attributes, run_program, NULL) || pthread_join(thread, NULL))
        fail("no thread");
    fflush(stdout);
    if (worker) {
        int how;
        team.quit = 1;
        change(&team.started);
        if (waitpid(worker, &how, 0) != worker || how)
            fail("the worker failed");
    }
    return status;
}
