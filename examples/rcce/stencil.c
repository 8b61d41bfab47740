/* A stencil of five points over a grid whose rows the ranks share out. Edges go by put and get with flags, as in
 * RCCE's "gory" interface; the whole grid is computed again by rank 0, which compares every point.
 *
 *   tombolo build examples/rcce/stencil.c
 *   tombolo rccerun -nue 4 stencil.tbi [STEPS]
 *
 * Numbers are integers, which all processors compute alike, and travel in network order.
 */
#define GORY
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <RCCE.h>

enum { WIDTH = 256, HEIGHT = 192, ROW_BYTES = WIDTH * 4 };

typedef uint32_t Row[WIDTH];

/* Computes rows first to last of `next` from `now`, which has one row more on either side. The border stays. */
static void compute(Row *now, Row *next, int first, int last) {
    for (int y = first; y <= last; y++) {
        next[y][0] = now[y][0];
        next[y][WIDTH - 1] = now[y][WIDTH - 1];
        for (int x = 1; x < WIDTH - 1; x++)
            next[y][x] = (4 * now[y][x] + now[y - 1][x] + now[y + 1][x] + now[y][x - 1] + now[y][x + 1]) / 8;
    }
}

/* Row y of the grid at the start: warm on top, cold at the bottom, with some noise. */
static void start_row(Row row, int y) {
    for (int x = 0; x < WIDTH; x++) row[x] = y == 0 ? 1u << 24 : (uint32_t)(x * 2654435761u + y * 40503u) >> 12;
}

/* What goes from a rank to the one above or below it: room in the message buffer, and two flags. */
typedef struct {
    t_vcharp room;
    RCCE_FLAG there, taken;
} Edge;

static void make_edge(Edge *edge) {
    edge->room = RCCE_malloc(ROW_BYTES);
    if (edge->room == NULL || RCCE_flag_alloc(&edge->there) || RCCE_flag_alloc(&edge->taken)) exit(1);
}

/* Puts a row into the buffer of rank `to`, once the last one was taken. */
static void put_row(Edge *edge, Row row, int to, int step) {
    Row wire;
    for (int x = 0; x < WIDTH; x++) wire[x] = htonl(row[x]);
    if (step > 0) {
        RCCE_wait_until(edge->taken, RCCE_FLAG_SET);
        RCCE_flag_write(&edge->taken, RCCE_FLAG_UNSET, RCCE_ue());
    }
    if (RCCE_put(edge->room, (t_vcharp)wire, ROW_BYTES, to)) exit(1);
    RCCE_flag_write(&edge->there, RCCE_FLAG_SET, to);
}

static void get_row(Edge *edge, Row row, int from) {
    RCCE_wait_until(edge->there, RCCE_FLAG_SET);
    RCCE_flag_write(&edge->there, RCCE_FLAG_UNSET, RCCE_ue());
    Row wire;
    if (RCCE_get((t_vcharp)wire, edge->room, ROW_BYTES, RCCE_ue())) exit(1);
    for (int x = 0; x < WIDTH; x++) row[x] = ntohl(wire[x]);
    RCCE_flag_write(&edge->taken, RCCE_FLAG_SET, from);
}

/* The rows of a rank. */
static int first_row(int rank, int ranks) { return 1 + (HEIGHT - 2) * rank / ranks; }

int RCCE_APP(int argc, char **argv) {
    RCCE_init(&argc, &argv);
    int steps = argc > 1 ? atoi(argv[1]) : 50, own = RCCE_ue(), ranks = RCCE_num_ues();
    int first = first_row(own, ranks), rows = first_row(own + 1, ranks) - first;
    Row *now = calloc(rows + 2, ROW_BYTES), *next = calloc(rows + 2, ROW_BYTES);
    Edge up, down;
    make_edge(&up);
    make_edge(&down);
    /* For the result, rank 0 has a flag for each other rank. */
    t_vcharp room = RCCE_malloc(ROW_BYTES);
    RCCE_FLAG taken, there[RCCE_MAXNP];
    if (room == NULL || RCCE_flag_alloc(&taken)) return 1;
    for (int rank = 0; rank < ranks; rank++)
        if (RCCE_flag_alloc(&there[rank])) return 1;
    if (now == NULL || next == NULL) return 1;
    for (int y = 0; y < rows + 2; y++) {
        start_row(now[y], first - 1 + y);
        start_row(next[y], first - 1 + y);
    }
    RCCE_barrier(&RCCE_COMM_WORLD);
    double start = RCCE_wtime();
    for (int step = 0; step < steps; step++) {
        if (step > 0 && own > 0) put_row(&up, now[1], own - 1, step - 1);
        if (step > 0 && own < ranks - 1) put_row(&down, now[rows], own + 1, step - 1);
        if (step > 0 && own < ranks - 1) get_row(&up, now[rows + 1], own + 1);
        if (step > 0 && own > 0) get_row(&down, now[0], own - 1);
        compute(now, next, 1, rows);
        Row *other = now;
        now = next, next = other;
    }
    double seconds = RCCE_wtime() - start;
    int wrong = 0;
    if (own > 0) {
        for (int y = 1; y <= rows; y++) {
            Row wire;
            for (int x = 0; x < WIDTH; x++) wire[x] = htonl(now[y][x]);
            RCCE_send((char *)wire, room, ROW_BYTES, &taken, &there[own], ROW_BYTES, 0);
        }
    } else {
        Row *whole = calloc(HEIGHT, ROW_BYTES), *other = calloc(HEIGHT, ROW_BYTES);
        if (whole == NULL || other == NULL) return 1;
        for (int y = 0; y < HEIGHT; y++) start_row(whole[y], y), start_row(other[y], y);
        for (int step = 0; step < steps; step++) {
            compute(whole, other, 1, HEIGHT - 2);
            Row *swap = whole;
            whole = other, other = swap;
        }
        for (int y = 1; y <= rows; y++) wrong += memcmp(now[y], whole[first - 1 + y], ROW_BYTES) != 0;
        for (int rank = 1; rank < ranks; rank++) {
            for (int y = first_row(rank, ranks); y < first_row(rank + 1, ranks); y++) {
                Row wire;
                RCCE_recv((char *)wire, room, ROW_BYTES, &taken, &there[rank], ROW_BYTES, rank);
                for (int x = 0; x < WIDTH; x++) wrong += ntohl(wire[x]) != whole[y][x];
            }
        }
        printf("stencil: %d x %d points, %d steps on %d ranks: %.2f ms, %s\n", WIDTH, HEIGHT, steps, ranks,
               seconds * 1e3, wrong ? "WRONG" : "equal to one rank's");
        free(whole);
        free(other);
    }
    free(now);
    free(next);
    return RCCE_finalize() || wrong;
}
