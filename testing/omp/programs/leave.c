/* Signal handlers, and ways out of calls on other nodes: longjmp and pthread_exit. The word: what to do. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <tombolo_migrate.h>
#include <unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include "check.h"

static int last;
static volatile sig_atomic_t caught, depth, code;
static jmp_buf outside, between;
static sigjmp_buf safe;
static int cleaned;

TOMBOLO_MIGRATE(where)
int where(void) {
    return tombolo_node();
}

/* What handlers do. */
static void count(int signal) {
    caught += signal;
}

static void count_with_more(int signal, siginfo_t *about, void *context) {
    EQUAL(about->si_signo, signal);
    CHECK(context || tombolo_node() != 0);
    code = about->si_code;
    caught += signal;
}

static void move(int signal) {
    caught = signal;
    tombolo_migrate(last);
}

static void call(int signal) {
    caught = signal;
    printf("in the handler on %d\n", where());
}

static void nest(int signal) {
    if (depth++ == 0) {
        raise(SIGUSR2);
        caught = signal;
    }
    if (depth == 2 && signal == SIGUSR2) siglongjmp(safe, 1);
}

static void jump(int signal) {
    caught = signal;
    siglongjmp(safe, signal);
}

/* The program is told of its own handlers, which are called as they were set. */
TOMBOLO_MIGRATE(handlers)
int handlers(void) {
    struct sigaction action = {.sa_handler = count}, before;
    caught = 0;
    EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
    EQUAL(sigaction(SIGUSR1, NULL, &before), 0);
    CHECK(before.sa_handler == count && !(before.sa_flags & (SA_SIGINFO | SA_RESETHAND)));
    EQUAL(raise(SIGUSR1), 0);
    EQUAL(caught, SIGUSR1);
    action.sa_sigaction = count_with_more, action.sa_flags = SA_SIGINFO | SA_RESETHAND;
    EQUAL(sigaction(SIGUSR1, &action, &before), 0);
    CHECK(before.sa_handler == count && !(before.sa_flags & SA_SIGINFO));
    EQUAL(sigaction(SIGUSR1, NULL, &before), 0);
    CHECK(before.sa_sigaction == count_with_more && before.sa_flags & SA_SIGINFO && before.sa_flags & SA_RESETHAND);
    caught = 0;
    EQUAL(raise(SIGUSR1), 0);
    EQUAL(caught, SIGUSR1);
    EQUAL(code, SI_TKILL);
    EQUAL(sigaction(SIGUSR1, NULL, &before), 0);
    CHECK(before.sa_handler == SIG_DFL);
    CHECK(signal(SIGUSR2, count) == SIG_DFL && signal(SIGUSR2, SIG_DFL) == count);
    CHECK(signal(1000, count) == SIG_ERR && sigaction(SIGKILL, &action, NULL) == -1);
    EQUAL(sigaction(SIGSEGV, NULL, &before), 0);
    CHECK(before.sa_handler == SIG_DFL);
    CHECK(signal(SIGSEGV, count) == SIG_DFL && signal(SIGSEGV, SIG_DFL) == count && signal(SIGSEGV, SIG_DFL) == SIG_DFL);
    /* A handler that is left by a jump, and one within another, are left. */
    CHECK(signal(SIGUSR1, nest) == SIG_DFL && signal(SIGUSR2, nest) == SIG_DFL);
    depth = 0;
    if (!sigsetjmp(safe, 1)) raise(SIGUSR1);
    EQUAL(depth, 2);
    signal(SIGUSR1, SIG_DFL), signal(SIGUSR2, SIG_DFL);
    EQUAL(tombolo_migrate(last - tombolo_node()), 0);
    return tombolo_node();
}

/* Handlers on a stack of their own, which are left by a jump. */
static void own_stack(void) {
    static char memory[65536];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    EQUAL(sigaltstack(&stack, NULL), 0);
    struct sigaction action = {.sa_handler = jump, .sa_flags = SA_ONSTACK};
    EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
    for (volatile int times = 0; times < 3; times++) {
        int signal = sigsetjmp(safe, 1);
        if (!signal) {
            raise(SIGUSR1);
            CHECK(0);
        }
        EQUAL(signal, SIGUSR1);
        EQUAL(tombolo_migrate(last), 0);
        EQUAL(where(), last);
        EQUAL(tombolo_migrate(0), 0);
    }
}

/* Jumps out of calls: to the caller, over a node, and over all. */
TOMBOLO_MIGRATE(leaps)
void leaps(int left, jmp_buf *to) {
    if (left < 0) return;
    if (left == 0) longjmp(*to, 1 + tombolo_node());
    tombolo_migrate((tombolo_node() + 1) % tombolo_nodes());
    leaps(left - 1, to);
    CHECK(!"returned");
}

TOMBOLO_MIGRATE(catches)
int catches(int left) {
    int node = tombolo_node(), from = setjmp(between);
    if (!from) {
        tombolo_migrate((node + 1) % tombolo_nodes());
        leaps(left, &between);
    }
    EQUAL(tombolo_node(), node);
    return from;
}

TOMBOLO_MIGRATE(raises)
void raises(void) {
    raise(SIGUSR1);
}

static void jumps(void) {
    for (volatile int left = 0; left < 5; left++) {
        tombolo_migrate(last);
        int from = setjmp(outside);
        if (!from) leaps(left, &outside);
        EQUAL(tombolo_node(), 0);
        EQUAL(from, 1 + (last + left) % tombolo_nodes());
        tombolo_migrate(last);
        EQUAL(where(), last);
        from = catches(left);
        EQUAL(from, 1 + (last + 1 + left) % tombolo_nodes());
    }
    /* Out of a handler that the other node executes, with the mask that was there. */
    signal(SIGUSR1, jump);
    for (volatile int times = 0; times < 2; times++) {
        tombolo_migrate(last);
        if (!sigsetjmp(safe, 1)) raises();
        EQUAL(caught, SIGUSR1);
        EQUAL(tombolo_node(), 0);
        EQUAL(tombolo_migrate(last), 0);
        EQUAL(where(), last);
    }
}

/* Threads that end in calls on other nodes. */
static void clean(void *number) {
    cleaned = cleaned * 10 + (int)(long)number;
}

TOMBOLO_MIGRATE(ends)
void ends(int left, long value) {
    pthread_cleanup_push(clean, (void *)(long)(left + 1));
    if (left == 0) pthread_exit((void *)value);
    if (left < 0) value = 0;
    else tombolo_migrate((tombolo_node() + 1) % tombolo_nodes());
    if (value) ends(left - 1, value);
    pthread_cleanup_pop(0);
    CHECK(!"returned");
}

static void *run(void *argument) {
    tombolo_migrate(last);
    ends((int)(long)argument, (long)argument + 100);
    return NULL;
}

static void exits(void) {
    static const int order[] = {1, 12, 123, 1234};
    for (long left = 0; left < 4; left++) {
        pthread_t thread;
        void *result;
        cleaned = 0;
        EQUAL(pthread_create(&thread, NULL, run, (void *)left), 0);
        EQUAL(pthread_join(thread, &result), 0);
        EQUAL((long)result, left + 100);
        EQUAL(cleaned, order[left]);
    }
}

/* Threads that are cancelled where they wait, on whichever node. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t none, goes_on;
static int ends_of_pipe[2], listens, left_alone;
static pthread_t stays;
static char fifo[64];
static pthread_key_t key;

static void unlock(void *mutex) {
    EQUAL(pthread_mutex_unlock(mutex), 0);
    clean((void *)5);
}

static void destroy_value(void *value) {
    EQUAL((long)value, 77);
    clean((void *)7);
}

/* Waits at no cancellation point. */
static void usleep_here(int milliseconds) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < milliseconds);
}

TOMBOLO_MIGRATE(waits)
void waits(const char *how) {
    struct timespec late;
    char byte;
    pthread_cleanup_push(clean, (void *)1);
    EQUAL(pthread_setspecific(key, (void *)77), 0);
    if (!strcmp(how, "condition") || !strcmp(how, "timed")) {
        pthread_mutex_lock(&lock);
        pthread_cleanup_push(unlock, &lock);
        clock_gettime(CLOCK_REALTIME, &late);
        late.tv_sec += 100;
        EQUAL(sem_post(&goes_on), 0);
        for (;;) {
            if (!strcmp(how, "timed")) pthread_cond_timedwait(&never, &lock, &late);
            else pthread_cond_wait(&never, &lock);
        }
        pthread_cleanup_pop(0);
    }
    EQUAL(sem_post(&goes_on), 0);
    if (!strcmp(how, "semaphore")) {
        sem_wait(&none);
    } else if (!strcmp(how, "sleep")) sleep(100);
    else if (!strcmp(how, "read")) read(ends_of_pipe[0], &byte, 1);
    else if (!strcmp(how, "poll")) poll(&(struct pollfd){ends_of_pipe[0], POLLIN, 0}, 1, -1);
    else if (!strcmp(how, "accept")) accept(listens, NULL, NULL);
    else if (!strcmp(how, "open")) open(fifo, O_RDONLY);
    else if (!strcmp(how, "join")) pthread_join(stays, NULL);
    else if (!strcmp(how, "test")) {
        for (;;) pthread_testcancel();
    } else if (!strcmp(how, "later")) {
        int before;
        EQUAL(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before), 0);
        EQUAL(before, PTHREAD_CANCEL_ENABLE);
        while (!__atomic_load_n(&left_alone, __ATOMIC_SEQ_CST)) usleep(1000);
        clean((void *)3);
        EQUAL(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before), 0);
        EQUAL(before, PTHREAD_CANCEL_DISABLE);
        pthread_testcancel();
    } else if (!strcmp(how, "before")) {
        while (!__atomic_load_n(&left_alone, __ATOMIC_SEQ_CST)) usleep_here(1);
        read(ends_of_pipe[0], &byte, 1);
    }
    CHECK(!"went on");
    pthread_cleanup_pop(0);
}

static const char *how_to_wait;
static int migrates;

static void *is_cancelled(void *argument) {
    pthread_cleanup_push(clean, (void *)2);
    tombolo_migrate(migrates ? last : tombolo_node());
    waits(how_to_wait);
    pthread_cleanup_pop(0);
    return argument;
}

static int joined(pthread_t thread) {
    void *result;
    EQUAL(pthread_join(thread, &result), 0);
    return result == PTHREAD_CANCELED;
}

/* Cancels and joins, where it is called. */
TOMBOLO_MIGRATE(cancels)
void cancels(const char *how, int by) {
    pthread_t thread;
    how_to_wait = how, cleaned = 0;
    __atomic_store_n(&left_alone, 0, __ATOMIC_SEQ_CST);
    EQUAL(pthread_create(&thread, NULL, is_cancelled, NULL), 0);
    EQUAL(sem_wait(&goes_on), 0);
    if (by) usleep(20000);
    EQUAL(pthread_cancel(thread), 0);
    __atomic_store_n(&left_alone, 1, __ATOMIC_SEQ_CST);
    CHECK(joined(thread));
    int in_lock = !strcmp(how, "condition") || !strcmp(how, "timed");
    EQUAL(cleaned, in_lock ? 5127 : !strcmp(how, "later") ? 3127 : 127);
}

static void *reads(void *argument) {
    char byte;
    EQUAL(read(ends_of_pipe[0], &byte, 1), 1);
    return argument;
}

static void cancel(void) {
    static const char *ways[] = {"condition", "timed", "semaphore", "sleep", "test", "later", "read", "poll", "accept", "open", "join"};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int count = sizeof ways / sizeof *ways;
    EQUAL(pipe(ends_of_pipe), 0);
    snprintf(fifo, sizeof fifo, "fifo%d", getpid());
    EQUAL(mkfifo(fifo, 0600), 0);
    snprintf(address.sun_path, sizeof address.sun_path, "socket%d", getpid());
    listens = socket(AF_UNIX, SOCK_STREAM, 0);
    EQUAL(bind(listens, (struct sockaddr *)&address, sizeof address) | listen(listens, 1), 0);
    EQUAL(pthread_key_create(&key, destroy_value), 0);
    EQUAL(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL), 0);
    /* Each at once and a while later, of threads that migrate or not, made where the program began and on the last node. */
    for (int turn = 0; turn < 8 * count; turn++) {
        int joins = turn % count == count - 1;
        if (joins) EQUAL(pthread_create(&stays, NULL, reads, NULL), 0);
        migrates = turn / count % 2;
        tombolo_migrate(turn / count / 4 ? last : 0);
        cancels(ways[turn % count], turn / count / 2 % 2);
        tombolo_migrate(0);
        if (joins) {
            EQUAL(write(ends_of_pipe[1], "x", 1), 1);
            EQUAL(pthread_join(stays, NULL), 0);
        }
    }
    EQUAL(unlink(fifo) | unlink(address.sun_path) | close(listens), 0);
    /* What is cancelled before it waits does not read what is there. */
    EQUAL(write(ends_of_pipe[1], "a", 1), 1);
    tombolo_migrate(last);
    cancels("before", 0);
    tombolo_migrate(0);
    char byte;
    EQUAL(read(ends_of_pipe[0], &byte, 1), 1);
    /* One that has not begun, and one that has ended. */
    for (int turn = 0; turn < 20; turn++) {
        pthread_t thread;
        how_to_wait = "semaphore";
        EQUAL(pthread_create(&thread, NULL, is_cancelled, NULL), 0);
        EQUAL(pthread_cancel(thread), 0);
        CHECK(joined(thread));
    }
}

/* A handler, without SA_RESTART and with it, of a signal to a thread that waits for a call. */
static volatile int handled;
static pthread_t handles;

static void handle(int signal) {
    (void)signal;
    CHECK(pthread_equal(pthread_self(), handles));
    handled++;
}

TOMBOLO_MIGRATE(is_interrupted)
void is_interrupted(int restarts) {
    char byte;
    EQUAL(sem_post(&goes_on), 0);
    ssize_t length = read(ends_of_pipe[0], &byte, 1);
    if (restarts) EQUAL(length, 1);
    else {
        EQUAL(length, -1);
        EQUAL(errno, EINTR);
    }
    __atomic_store_n(&left_alone, 1, __ATOMIC_SEQ_CST);
}

static void *waits_for_signal(void *restarts) {
    tombolo_migrate(migrates ? last : tombolo_node());
    is_interrupted(restarts != NULL);
    return NULL;
}

TOMBOLO_MIGRATE(sends)
void sends(int restarts) {
    __atomic_store_n(&left_alone, 0, __ATOMIC_SEQ_CST);
    handled = 0;
    EQUAL(pthread_create(&handles, NULL, waits_for_signal, restarts ? &handles : NULL), 0);
    EQUAL(sem_wait(&goes_on), 0);
    for (int turn = 0; restarts ? handled < 3 : !__atomic_load_n(&left_alone, __ATOMIC_SEQ_CST); turn++) {
        EQUAL(pthread_kill(handles, SIGUSR1), 0);
        usleep(2000);
        CHECK(turn < 5000);
    }
    if (restarts) EQUAL(write(ends_of_pipe[1], "x", 1), 1);
    EQUAL(pthread_join(handles, NULL), 0);
    CHECK(handled > 0);
}

static void interrupts(void) {
    EQUAL(pipe(ends_of_pipe), 0);
    for (int turn = 0; turn < 8; turn++) {
        struct sigaction action = {.sa_handler = handle, .sa_flags = turn % 2 ? SA_RESTART : 0};
        EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
        migrates = turn / 2 % 2;
        tombolo_migrate(turn / 4 ? last : 0);
        sends(turn % 2);
        tombolo_migrate(0);
    }
}

static void *says_last(void *argument) {
    usleep(20000);
    printf("main: right\n");
    return argument;
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "handlers";
    last = tombolo_nodes() - 1;
    EQUAL(sem_init(&none, 0, 0) | sem_init(&goes_on, 0, 0), 0);
    if (!strcmp(what, "handlers")) {
        for (int node = 0; node <= last; node++) {
            EQUAL(tombolo_migrate(node), 0);
            EQUAL(handlers(), node);
        }
        tombolo_migrate(0);
        own_stack();
    } else if (!strcmp(what, "jumps")) jumps();
    else if (!strcmp(what, "exits")) exits();
    else if (!strcmp(what, "cancel")) cancel();
    else if (!strcmp(what, "interrupts")) interrupts();
    else if (!strcmp(what, "main")) {
        pthread_t thread;
        EQUAL(pthread_create(&thread, NULL, says_last, NULL), 0);
        tombolo_migrate(last);
        ends(1, 1);
    } else if (!strcmp(what, "moves")) {
        signal(SIGUSR1, move);
        raise(SIGUSR1);
    } else if (!strcmp(what, "moves-there")) {
        signal(SIGUSR1, move);
        tombolo_migrate(last);
        raises();
    } else if (!strcmp(what, "calls")) {
        signal(SIGUSR1, call);
        tombolo_migrate(last);
        raise(SIGUSR1);
    } else if (!strcmp(what, "stays")) {
        signal(SIGUSR1, call);
        raise(SIGUSR1);
    } else if (!strcmp(what, "alarm")) {
        signal(SIGALRM, jump);
        if (!sigsetjmp(safe, 1)) {
            alarm(1);
            for (;;) usleep(1000);
        }
    }
    printf("%s: right\n", what);
    return 0;
}
