/* Calls functions on other nodes, with arguments and results of all kinds, in chains, and from several threads. Its first word says what,
   its second how often. */
#include <complex.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <tombolo_migrate.h>
#include <unistd.h>
#include "check.h"

/* Globals, and the heap. */
struct node {
    struct node *next;
    long value;
};
static long table[1000];
long total;
struct node *list;

TOMBOLO_MIGRATE(add_up)
long add_up(const long *values, int count) {
    long sum = 0;
    for (int index = 0; index < count; index++) sum += values[index];
    total += sum;
    struct node *node = malloc(sizeof *node);
    *node = (struct node){list, sum};
    list = node;
    return sum;
}

/* All kinds of numbers, more than registers are for. */
enum colour { RED, GREEN = 70000 };

TOMBOLO_MIGRATE(whole)
long whole(signed char a, unsigned char b, short c, unsigned short d, int e, unsigned f, long g, unsigned long h, bool i, char j,
           enum colour k, const char *l) {
    return a + b + c + d + e + f + g + (long)h + i + j + k + (long)strlen(l);
}

TOMBOLO_MIGRATE(broken)
double broken(float a, double b, float c, double d, float e, double f, float g, double h, float i, double j, int k) {
    return a + b + c + d + e + f + g + h + i + j + k;
}

TOMBOLO_MIGRATE(turned)
double complex turned(double complex a, float complex b) {
    return a * I + b;
}

TOMBOLO_MIGRATE(wide)
__int128 wide(__int128 a, int b, unsigned __int128 c) {
    return a * b + (__int128)c;
}

/* Structures, as processors pass them: in registers of both kinds, in memory, by reference. */
struct small {
    short a;
    char b[3];
};
struct mixed {
    double x;
    int n;
};
struct quad {
    float x, y, z, w;
};
struct large {
    long values[9];
    struct mixed inner[2];
};
union either {
    double number;
    uint64_t bits;
};

TOMBOLO_MIGRATE(swap)
struct small swap(struct small it) {
    return (struct small){(short)-it.a, {it.b[2], it.b[1], it.b[0]}};
}

TOMBOLO_MIGRATE(mix)
struct mixed mix(int before, struct mixed one, struct quad two, struct small three) {
    return (struct mixed){one.x * before + two.x + two.y + two.z + two.w, one.n + three.a + three.b[1]};
}

TOMBOLO_MIGRATE(quad)
struct quad quad(struct quad it, float by) {
    return (struct quad){it.w * by, it.z * by, it.y * by, it.x * by};
}

TOMBOLO_MIGRATE(large)
struct large large(struct large it, union either with) {
    for (int index = 0; index < 9; index++) it.values[index] += (long)with.number;
    it.inner[1].x = it.inner[0].x + 1;
    return it;
}

TOMBOLO_MIGRATE(apply)
int apply(int (*function)(int), int to) {
    return function(to);
}

/* Compilers put what is seldom needed elsewhere. */
__attribute__((cold, noinline, noreturn)) static void give_up(long value) {
    fprintf(stderr, "%ld\n", value);
    _Exit(1);
}

TOMBOLO_MIGRATE(divided)
long divided(long one, long other) {
    if (other == 0) give_up(one);
    if (one % other) give_up(one * other);
    return one / other;
}

TOMBOLO_MIGRATE(nothing)
void nothing(void) {
    total++;
}

static int twice(int number) {
    return 2 * number;
}

static void types(int node) {
    const char text[] = "on the stack";
    for (int to = 0; to < 2; to++) {
        EQUAL(tombolo_migrate(to ? node : 0), 0);
        total = 0;
        for (int index = 0; index < 1000; index++) table[index] = index;
        EQUAL(add_up(table, 1000), 499500);
        EQUAL(total, 499500);
        EQUAL(list->value, 499500);
        nothing();
        EQUAL(total, 499501);
        EQUAL(whole(-1, 255, -300, 65535, -5, 4000000000u, -(1L << 40), 1UL << 41, true, 'x', GREEN, text),
              -1 + 255 - 300 + 65535 - 5 + 4000000000L - (1L << 40) + (1L << 41) + 1 + 'x' + 70000 + 12);
        CHECK(broken(1, 2, 3, 4, 5, 6, 7, 8, 9, 10.5, 11) == 66.5);
        CHECK(turned(2 + 3 * I, 1) == -3 + 2 * I + 1);
        CHECK(wide(-((__int128)1 << 70), 3, 5) == -((__int128)3 << 70) + 5);
        struct small small = swap((struct small){7, {1, 2, 3}});
        CHECK(small.a == -7 && small.b[0] == 3 && small.b[2] == 1);
        struct mixed mixed = mix(2, (struct mixed){1.5, 40}, (struct quad){1, 2, 3, 4}, small);
        CHECK(mixed.x == 13 && mixed.n == 35);
        struct quad fourth = quad((struct quad){1, 2, 3, 4}, 2);
        CHECK(fourth.x == 8 && fourth.y == 6 && fourth.z == 4 && fourth.w == 2);
        struct large much = {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {{2.5, 1}, {0, 2}}};
        much = large(much, (union either){.number = 100});
        CHECK(much.values[0] == 101 && much.values[8] == 109 && much.inner[1].x == 3.5 && much.inner[1].n == 2);
        EQUAL(apply(twice, 21), 42);
        EQUAL(divided(42, -21), -2);
    }
    EQUAL(tombolo_migrate(0), 0);
    CHECK(list->next->value == 499500);
    free(list->next);
}

/* Chains of calls, there and back, at random. */
static uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static uint64_t mixed_in(uint64_t sum, uint64_t what) {
    return (sum ^ what) * 0x9e3779b97f4a7c15u;
}

static long moved;

TOMBOLO_MIGRATE(walk)
uint64_t walk(uint64_t seed, int depth, int at) {
    if (tombolo_nodes() > 1) EQUAL(tombolo_node(), at);
    uint64_t state = seed, sum = seed;
    for (int step = 0; depth && step < 3; step++) {
        int to = (int)(next(&state) % (uint64_t)tombolo_nodes());
        if (to != at) {
            __atomic_fetch_add(&moved, 1, __ATOMIC_RELAXED);
        }
        tombolo_migrate(to);
        sum = mixed_in(sum, walk(next(&state) | 1, depth - 1, to));
        if (tombolo_nodes() > 1) EQUAL(tombolo_node(), at);
    }
    return sum;
}

/* The same without any of it. */
static uint64_t stay(uint64_t seed, int depth, int nodes) {
    uint64_t state = seed, sum = seed;
    for (int step = 0; depth && step < 3; step++) {
        next(&state);
        (void)nodes;
        sum = mixed_in(sum, stay(next(&state) | 1, depth - 1, nodes));
    }
    return sum;
}

static void walks(uint64_t seed, int times, int home) {
    for (int turn = 0; turn < times; turn++) {
        uint64_t begin = (seed + (uint64_t)turn) * 2654435761u + 1;
        tombolo_migrate(home);
        CHECK(walk(begin, 4, home) == stay(begin, 4, tombolo_nodes()));
    }
    tombolo_migrate(home);
}

/* errno, and files that are open. */
TOMBOLO_MIGRATE(fails)
int fails(int with) {
    int before = errno;
    errno = with;
    return before;
}

TOMBOLO_MIGRATE(writes)
int writes(FILE *file, const char *text) {
    return fputs(text, file);
}

static void library(int node) {
    tombolo_migrate(node);
    errno = EXDEV;
    EQUAL(fails(ENOTTY), EXDEV);
    EQUAL(errno, ENOTTY);
    FILE *file = tmpfile();
    CHECK(file);
    CHECK(fputs("here, ", file) >= 0 && writes(file, "there, ") >= 0);
    tombolo_migrate(0);
    CHECK(writes(file, "here") >= 0);
    rewind(file);
    char text[64] = "";
    CHECK(fgets(text, sizeof text, file));
    CHECK(!strcmp(text, "here, there, here"));
    fclose(file);
    errno = 0;
    EQUAL(tombolo_migrate(tombolo_nodes()), -1);
    EQUAL(errno, EINVAL);
    EQUAL(tombolo_migrate(-1), -1);
    EQUAL(tombolo_node_named("no such node"), -1);
    EQUAL(errno, ENOENT);
}

/* Threads that another node creates and joins, and one that it joins only. */
static void *walks_home(void *argument) {
    int node = *(int *)argument;
    EQUAL(tombolo_node(), node);
    tombolo_migrate(0);
    EQUAL(walk(7, 0, 0), 7);
    return argument;
}

TOMBOLO_MIGRATE(creates)
int creates(int node) {
    void *back = NULL;
    for (int times = 0; times < 5; times++) {
        pthread_t thread;
        EQUAL(pthread_create(&thread, NULL, walks_home, &node), 0);
        EQUAL(pthread_join(thread, &back), 0);
        CHECK(back == &node);
    }
    return back == &node;
}

TOMBOLO_MIGRATE(joins)
int joins(pthread_t thread) {
    return pthread_join(thread, NULL);
}

TOMBOLO_MIGRATE(stays)
int stays(void) {
    puts("begun");
    fflush(stdout);
    for (;;) {
        total++;
        usleep(1000);
    }
}

TOMBOLO_MIGRATE(deep)
int deep(int left) {
    volatile char frame[4096];
    frame[0] = (char)left;
    return left ? deep(left - 1) + frame[0] : 0;
}

TOMBOLO_MIGRATE(leaps)
int leaps(void *out) {
    jmp_buf here;
    volatile int times = 0;
    if (!out) {
        switch (setjmp(here)) {
        case 0: times++; longjmp(here, 5);
        case 5: times++; _longjmp(here, 0);
        case 1: return times + tombolo_node();
        default: return -1;
        }
    }
    longjmp(*(jmp_buf *)out, 1);
}

TOMBOLO_MIGRATE(ends)
void ends(int status) {
    exit(status);
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "types";
    int times = count > 2 ? atoi(words[2]) : 1, last = tombolo_nodes() - 1;
    EQUAL(tombolo_node(), 0);
    if (!strcmp(what, "types")) types(last);
    else if (!strcmp(what, "library")) library(last);
    else if (!strcmp(what, "walk")) walks(1, times, 0);
    else if (!strcmp(what, "threads")) {
#pragma omp parallel num_threads(8)
        walks((uint64_t)moved + (uint64_t)(uintptr_t)&count * 31, times, tombolo_node());
    } else if (!strcmp(what, "stays")) {
        tombolo_migrate(last);
        return stays();
    } else if (!strcmp(what, "creates")) {
        tombolo_migrate(last);
        CHECK(creates(last));
    } else if (!strcmp(what, "join")) {
        pthread_t thread;
        EQUAL(pthread_create(&thread, NULL, walks_home, &(int){0}), 0);
        tombolo_migrate(last);
        EQUAL(joins(thread), 0);
    } else if (!strcmp(what, "deep")) {
        tombolo_migrate(last);
        printf("%d\n", deep(1000000));
    } else if (!strcmp(what, "leaps")) {
        jmp_buf place;
        EQUAL(leaps(NULL), 2);
        tombolo_migrate(last);
        EQUAL(leaps(NULL), 2 + last);
        if (!setjmp(place)) leaps(&place);
    } else if (!strcmp(what, "ends")) {
        tombolo_migrate(last);
        ends(7);
    }
    printf("%s: right%s\n", what, moved ? ", moved" : "");
    return 0;
}
