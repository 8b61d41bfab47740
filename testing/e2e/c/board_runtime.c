/* What C programs have on a board: each is checked, and the program ends with status 3. Arguments: one word, and "two words". */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            printf("line %d: %s\n", __LINE__, #condition);                        \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

static _Thread_local int counted = 41;
static _Thread_local int zero;
static _Thread_local _Alignas(32) char aligned[32] = "of this thread";
static int constructed;
static int variables[1000];

__attribute__((constructor)) static void construct(void) { constructed = 7; }

static void print_at_exit(void) { printf("at exit, without an end of line"); }

static void heap(void) {
    char *blocks[100];
    for (int i = 0; i < 100; i++) {
        blocks[i] = malloc((size_t)i * 97);
        CHECK(blocks[i] != NULL && (uintptr_t)blocks[i] % 16 == 0);
        memset(blocks[i], i, (size_t)i * 97);
    }
    for (int i = 0; i < 100; i += 2) free(blocks[i]);
    for (int i = 1; i < 100; i += 2) {
        blocks[i] = realloc(blocks[i], (size_t)i * 200);
        for (int at = 0; at < i * 97; at++) CHECK(blocks[i][at] == (char)i);
        free(blocks[i]);
    }
    int *zeroes = calloc(1000, sizeof *zeroes);
    for (int i = 0; i < 1000; i++) CHECK(zeroes[i] == 0);
    free(zeroes);
    void *page = aligned_alloc(4096, 8192), *other = NULL;
    CHECK((uintptr_t)page % 4096 == 0);
    CHECK(posix_memalign(&other, 256, 10) == 0 && (uintptr_t)other % 256 == 0);
    free(page);
    free(other);
    volatile size_t huge = SIZE_MAX / 2;
    CHECK(malloc(huge / 1000) == NULL && calloc(huge, 4) == NULL);
    CHECK(realloc(NULL, 0) != NULL);
}

int main(int argc, char **argv) {
    CHECK(argc == 3 && strcmp(argv[1], "word") == 0 && strcmp(argv[2], "two words") == 0 && argv[3] == NULL);
    CHECK(constructed == 7);
    CHECK(counted == 41 && zero == 0 && strcmp(aligned, "of this thread") == 0);
    CHECK((uintptr_t)aligned % 32 == 0);
    counted++, zero++;
    for (int i = 0; i < 1000; i++) CHECK(variables[i] == 0);
    heap();
    errno = 0;
    CHECK(fopen("/etc/passwd", "r") == NULL && errno == ENOENT);
    CHECK(getchar() == EOF);
    CHECK(counted == 42 && zero == 1);
    double root = sqrt(strtod("2.25", NULL));
    char text[64];
    snprintf(text, sizeof text, "%.3f %g %08.2e %lld %s %#x", root, 0.1, 12345.678, 1LL << 40, "s", 255);
    CHECK(strcmp(text, "1.500 0.1 1.23e+04 1099511627776 s 0xff") == 0);
    clock_t before = clock();
    usleep(20000);
    CHECK(clock() - before >= CLOCKS_PER_SEC / 100);
    fprintf(stderr, "an error\n");
    for (int i = 0; i < 600; i++) putchar('x');
    putchar('\n');
    atexit(print_at_exit);
    return 3;
}
