/* One process on all nodes: its number, folder, files, streams, environment, signals, threads and end. The word: what to do. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <tombolo_migrate.h>
#include "check.h"

#define NAME "one_process.tmp"

static pid_t self;
static int last, opened, ends[2], asked[2];
static FILE *stream;
static volatile sig_atomic_t caught, caught_on, caught_by_first;
static char folder[4096];

static void catch_signal(int signal) {
    caught = signal;
    caught_on = tombolo_node();
    caught_by_first = syscall(SYS_gettid) == syscall(SYS_getpid);
}

/* What main has opened and set, on another node. */
TOMBOLO_MIGRATE(uses)
int uses(int node) {
    char text[32] = "", here[4096];
    struct stat about;
    EQUAL(tombolo_node(), node);
    EQUAL(getpid(), self);
    CHECK(getcwd(here, sizeof here) && !strcmp(here, folder));
    CHECK(getenv("ONE") && !strcmp(getenv("ONE"), "set by main"));
    EQUAL(setenv("ONE", "set there", 1) | setenv("TWO", "new", 1), 0);
    EQUAL(read(opened, text, 4), 4);
    CHECK(!strcmp(text, "0123"));
    EQUAL(lseek(opened, 0, SEEK_CUR), 4);
    EQUAL(pread(opened, text, 2, 8), 2);
    CHECK(!memcmp(text, "89", 2));
    EQUAL(lseek(opened, 6, SEEK_SET), 6);
    EQUAL(fstat(opened, &about), 0);
    CHECK(S_ISREG(about.st_mode) && about.st_nlink == 1);
    EQUAL(about.st_size, 10);
    EQUAL(fcntl(opened, F_GETFL) & O_ACCMODE, O_RDWR);
    int more = dup(opened);
    CHECK(more >= 0);
    EQUAL(write(more, "x", 1), 1);
    EQUAL(close(more), 0);
    EQUAL(open("not/there", O_RDONLY), -1);
    EQUAL(errno, ENOENT);
    EQUAL(read(1000, text, 1), -1);
    EQUAL(errno, EBADF);
    EQUAL(open(NAME, O_RDONLY | O_DIRECTORY), -1);
    EQUAL(errno, ENOTDIR);
    /* What only this node could have. */
    CHECK(node == 0 || mmap(NULL, 10, PROT_READ, MAP_PRIVATE, opened, 0) == MAP_FAILED);
    EQUAL(node == 0 ? ENODEV : errno, ENODEV);
    int set = epoll_create1(0);
    CHECK(node == 0 ? set >= 0 && close(set) == 0 : set == -1 && errno == ENOSYS);
    fputs("there ", stream);
    return fprintf(stream, "%d\n", node);
}

/* What is opened there. */
TOMBOLO_MIGRATE(opens)
int opens(int node) {
    EQUAL(tombolo_node(), node);
    EQUAL(mkdir("one_process.d", 0700), 0);
    EQUAL(chdir("one_process.d"), 0);
    FILE *file = fopen("a", "w");
    CHECK(file && fputs("of another node\n", file) >= 0 && fclose(file) == 0);
    EQUAL(close(open("b", O_CREAT | O_EXCL | O_WRONLY, 0600)), 0);
    int count = 0;
    DIR *all = opendir(".");
    CHECK(all);
    for (struct dirent *entry; (entry = readdir(all));) count += strchr("ab", entry->d_name[0]) != NULL;
    EQUAL(closedir(all), 0);
    EQUAL(count, 2);
    EQUAL(pipe(ends) | pipe2(asked, O_CLOEXEC), 0);
    FILE *of_child = popen("read word; echo got $word", "r");
    CHECK(of_child && pclose(of_child) >= 0);
    EQUAL(system("exit 3"), 3 << 8);
    int pair[2];
    EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    EQUAL(send(pair[0], "hi", 2, 0), 2);
    struct pollfd ready = {.fd = pair[1], .events = POLLIN};
    EQUAL(poll(&ready, 1, 1000), 1);
    EQUAL(close(pair[0]) | close(pair[1]), 0);
    return open("a", O_RDWR);
}

/* Waits for what main writes, and answers. */
TOMBOLO_MIGRATE(reply)
int reply(int node) {
    char byte;
    EQUAL(tombolo_node(), node);
    EQUAL(read(ends[0], &byte, 1), 1);
    byte++;
    return (int)write(asked[1], &byte, 1);
}

static void *answers(void *node) {
    tombolo_migrate(*(int *)node);
    EQUAL(reply(*(int *)node), 1);
    return NULL;
}

static void files(void) {
    char text[64];
    CHECK(getcwd(folder, sizeof folder));
    EQUAL(setenv("ONE", "set by main", 1), 0);
    opened = open(NAME, O_RDWR | O_CREAT | O_TRUNC, 0600);
    EQUAL(write(opened, "0123456789", 10), 10);
    EQUAL(lseek(opened, 0, SEEK_SET), 0);
    stream = fopen(NAME "2", "w+");
    CHECK(stream && fputs("here ", stream) >= 0);
    tombolo_migrate(last);
    EQUAL(uses(last), 2);
    CHECK(!strcmp(getenv("ONE"), "set there") && !strcmp(getenv("TWO"), "new"));
    EQUAL(lseek(opened, 0, SEEK_CUR), 7);
    EQUAL(pread(opened, text, 10, 0), 10);
    CHECK(!memcmp(text, "012345x789", 10));
    rewind(stream);
    CHECK(fgets(text, sizeof text, stream) && !strncmp(text, "here there ", 11));
    EQUAL(fclose(stream) | close(opened) | unlink(NAME) | unlink(NAME "2"), 0);
    int file = opens(last);
    CHECK(file >= 0);
    EQUAL(read(file, text, sizeof text), 16);
    CHECK(!memcmp(text, "of another node\n", 16));
    pthread_t thread;
    int node = last;
    EQUAL(pthread_create(&thread, NULL, answers, &node), 0);
    usleep(20000);
    EQUAL(write(ends[1], "m", 1), 1);
    EQUAL(read(asked[0], text, 1), 1);
    EQUAL(text[0], 'n');
    EQUAL(pthread_join(thread, NULL), 0);
    EQUAL(close(file) | unlink("a") | unlink("b") | chdir("..") | rmdir("one_process.d"), 0);
}

/* Lines that threads of all nodes write in turn, and what they read of one input. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;

static void *lines(void *argument) {
    int me = (int)(intptr_t)argument;
    for (int round = 0; round < 10; round++) {
        pthread_mutex_lock(&lock);
        while (turn % 4 != me) pthread_cond_wait(&changed, &lock);
        printf("line %d\n", turn++);
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void order(void) {
    pthread_t threads[4];
    for (long number = 0; number < 4; number++) EQUAL(pthread_create(&threads[number], NULL, lines, (void *)number), 0);
    for (int number = 0; number < 4; number++) EQUAL(pthread_join(threads[number], NULL), 0);
}

TOMBOLO_MIGRATE(reads)
int reads(int node) {
    char line[32];
    EQUAL(tombolo_node(), node);
    if (!fgets(line, sizeof line, stdin)) return 0;
    printf("node %d: %s", node, line);
    return 1;
}

/* Signals: handlers, what raises and what is sent. */
TOMBOLO_MIGRATE(signals)
int signals(int node) {
    struct sigaction action = {.sa_handler = catch_signal};
    EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
    EQUAL(raise(SIGUSR1), 0);
    EQUAL(caught, SIGUSR1);
    EQUAL(caught_on, node);
    caught = 0;
    CHECK(signal(SIGUSR2, catch_signal) == SIG_DFL);
    EQUAL(kill(getpid(), SIGUSR2), 0);
    for (int times = 0; times < 5000 && !caught; times++) usleep(1000);
    EQUAL(caught, SIGUSR2);
    EQUAL(caught_on, 0);
    /* In a job that thread is the run-time's. */
    EQUAL(caught_by_first, last == 0);
    CHECK(signal(SIGUSR2, SIG_IGN) == catch_signal);
    EQUAL(raise(SIGUSR2) | kill(0, 0) | pthread_kill(pthread_self(), SIGUSR1), 0);
    EQUAL(raise(1000), -1);
    EQUAL(errno, EINVAL);
    return caught_on;
}

static void said_at_end(void) {
    printf("at the end, on node %d\n", tombolo_node());
}

TOMBOLO_MIGRATE(leaves)
int leaves(const char *how) {
    EQUAL(atexit(said_at_end), 0);
    printf("leaves by %s\n", how);
    if (!strcmp(how, "exit")) exit(7);
    fflush(NULL);
    if (!strcmp(how, "_exit")) _exit(6);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "raise")) raise(SIGINT);
    kill(getpid(), SIGTERM);
    for (;;) pause();
}

/* Threads that one node creates and another joins. */
static void *adds(void *number) {
    return (void *)((intptr_t)number + 1);
}

TOMBOLO_MIGRATE(creates)
pthread_t creates(long number) {
    pthread_t thread;
    EQUAL(pthread_create(&thread, NULL, adds, (void *)number), 0);
    return thread;
}

TOMBOLO_MIGRATE(joins)
long joins(pthread_t thread) {
    void *back = NULL;
    EQUAL(pthread_join(thread, &back), 0);
    return (long)(intptr_t)back;
}

/* Values of a thread that go with it. */
static pthread_key_t key;
static int destroyed;

static void destroy(void *value) {
    destroyed += *(int *)value;
    free(value);
}

TOMBOLO_MIGRATE(changes)
int changes(int node) {
    EQUAL(tombolo_node(), node);
    int *value = pthread_getspecific(key), before = value ? *value : -1;
    if (!value) value = malloc(sizeof *value);
    *value = node + 10;
    EQUAL(pthread_setspecific(key, value), 0);
    return before;
}

static void *has_values(void *argument) {
    int before = -1;
    for (int node = 0; node < tombolo_nodes(); node++) {
        tombolo_migrate(node);
        EQUAL(changes(node), before);
        before = node + 10;
    }
    return argument;
}

static void keys(void) {
    pthread_t thread;
    EQUAL(pthread_key_create(&key, destroy), 0);
    CHECK(pthread_getspecific(key) == NULL);
    EQUAL(pthread_setspecific(key, &last), 0);
    for (int times = 1; times <= 3; times++) {
        EQUAL(pthread_create(&thread, NULL, has_values, NULL), 0);
        EQUAL(pthread_join(thread, NULL), 0);
        EQUAL(destroyed, times * (last + 10));
    }
    CHECK(pthread_getspecific(key) == &last);
    EQUAL(pthread_key_delete(key), 0);
}

static void threads(void) {
    keys();
    tombolo_migrate(0);
    for (int by = 0; by < tombolo_nodes(); by++) {
        for (int of = 0; of < tombolo_nodes(); of++) {
            tombolo_migrate(by);
            pthread_t thread = creates(10 * by + of);
            tombolo_migrate(of);
            EQUAL(joins(thread), 10 * by + of + 1);
        }
    }
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "files";
    self = getpid();
    last = tombolo_nodes() - 1;
    if (!strcmp(what, "files")) {
        files();
    } else if (!strcmp(what, "order")) {
        order();
        return 0;
    } else if (!strcmp(what, "reads")) {
        for (int node = 0;; node = last - node) {
            tombolo_migrate(node);
            if (!reads(node)) return 0;
        }
    } else if (!strcmp(what, "signals")) {
        tombolo_migrate(last);
        signals(last);
    } else if (!strcmp(what, "threads")) {
        threads();
    } else {
        tombolo_migrate(last);
        leaves(what);
    }
    printf("%s: right on %d nodes\n", what, last + 1);
    return 0;
}
