/* A cellular automaton over a torus, cut into blocks of rows, one block a rank: each new cell is a weighted mean of the nine
 * around it, in integers, so that every instruction set comes to the same bits.
 *
 * After Christgau and Schnor, "One-Sided Communication in RCKMPI for the Single-Chip Cloud Computer" (MARC 2012): in each step
 * a rank exchanges its border rows with its two neighbours, and computes the inner rows meanwhile. How the rows travel is
 * chosen by --exchange:
 *
 *   two-sided   MPI_Isend and MPI_Irecv
 *   fence       MPI_Put, and one MPI_Win_fence a step
 *   pscw        MPI_Put between MPI_Win_start and MPI_Win_complete, towards the neighbours alone
 *
 * The neighbours' borders (ghost rows) lie apart from the rows of the rank itself. Only they are open to the neighbours, in memory
 * that MPI allocates as it likes it; what is computed on stays the rank's own.
 *
 * usage: automaton [--exchange=two-sided|fence|pscw] [--rows N] [--columns N] [--steps N] [--equal] [--verify] [--json]
 *
 * Ranks get as many rows as they are fast, measured for a moment at the start, unless --equal gives all the same. --verify has
 * rank 0 compute everything again alone and compare. Ends with 1 if that differs.
 */
#include <errno.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum exchange { TWO_SIDED, FENCE, PSCW };
static const char *const exchange_names[] = {"two-sided", "fence", "pscw"};

struct options {
    enum exchange exchange;
    int64_t rows, columns, steps;
    int equal, verify, json;
};

/* A state of a rank's rows. While one is computed out of the other, the neighbours may already send their borders of it. */
struct field {
    int32_t *rows;
    int32_t *ghosts; /* the row above the first, and the one below the last */
    MPI_Win window;  /* over the ghosts, if the exchange is one-sided */
};

/* What a rank has: `count` rows from `first` on. */
struct block {
    int64_t first, count, columns;
    struct field now, next;
    int above, below; /* ranks */
    MPI_Group neighbours;
};

static int rank, size;

static void usage(const char *problem, const char *what) {
    if (rank == 0) {
        fprintf(stderr, "automaton: %s%s\nusage: automaton [--exchange=two-sided|fence|pscw] [--rows N] [--columns N]"
                        " [--steps N] [--equal] [--verify] [--json]\n", problem, what);
    }
    MPI_Finalize();
    exit(2);
}

static int64_t number(const char *option, const char *text) {
    char *end;
    errno = 0;
    long long value = text ? strtoll(text, &end, 10) : 0;
    if (!text || errno || *end || end == text || value < 1 || value > 1000000000) {
        usage("a number from 1 to 1000000000 belongs after ", option);
    }
    return value;
}

static struct options options_of(int argc, char **argv) {
    struct options options = {TWO_SIDED, 2048, 2048, 200, 0, 0, 0};
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!strncmp(word, "--exchange=", 11)) {
            int found = -1;
            for (int k = 0; k < 3; k++) {
                if (!strcmp(word + 11, exchange_names[k])) found = k;
            }
            if (found < 0) usage("no such exchange: ", word + 11);
            options.exchange = (enum exchange)found;
        } else if (!strcmp(word, "--rows")) {
            options.rows = number(word, argv[++i]);
        } else if (!strcmp(word, "--columns")) {
            options.columns = number(word, argv[++i]);
        } else if (!strcmp(word, "--steps")) {
            options.steps = number(word, argv[++i]);
        } else if (!strcmp(word, "--equal")) {
            options.equal = 1;
        } else if (!strcmp(word, "--verify")) {
            options.verify = 1;
        } else if (!strcmp(word, "--json")) {
            options.json = 1;
        } else {
            usage("unknown option: ", word);
        }
    }
    if (options.rows < 2 * (int64_t)size) usage("every rank needs two rows: give more with --rows", "");
    return options;
}

/* One that says how much it could not have, rather than one that dies of it. */
static int32_t *rows_of_cells(int64_t rows, int64_t columns) {
    int32_t *cells = calloc((size_t)rows, (size_t)columns * sizeof *cells);
    if (!cells) {
        fprintf(stderr, "automaton: rank %d has no memory for %" PRId64 " x %" PRId64 " cells\n", rank, rows, columns);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return cells;
}

/* What a cell holds at the beginning: noise that depends on nothing but where it is. */
static int32_t seed(int64_t row, int64_t column) {
    uint64_t x = (uint64_t)row * 0x9e3779b97f4a7c15u + (uint64_t)column + 1;
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    return (int32_t)(x & 0xffffff);
}

static void step_row(int32_t *restrict target, const int32_t *north, const int32_t *here, const int32_t *south, int64_t columns) {
    for (int64_t column = 1; column + 1 < columns; column++) {
        target[column] = (4 * here[column] + 2 * (north[column] + south[column] + here[column - 1] + here[column + 1])
                          + north[column - 1] + north[column + 1] + south[column - 1] + south[column + 1]) >> 4;
    }
    for (int64_t edge = 0; edge < 2 && edge < columns; edge++) { /* the torus closes here */
        int64_t column = edge ? columns - 1 : 0;
        int64_t west = (column + columns - 1) % columns, east = (column + 1) % columns;
        target[column] = (4 * here[column] + 2 * (north[column] + south[column] + here[west] + here[east])
                          + north[west] + north[east] + south[west] + south[east]) >> 4;
    }
}

/* Computes rows `from` to `to`, without the last, of `count`. */
static void step_rows(const struct field *next, const struct field *now, int64_t from, int64_t to, int64_t count, int64_t columns) {
    for (int64_t row = from; row < to; row++) {
        const int32_t *here = now->rows + row * columns;
        step_row(next->rows + row * columns, row > 0 ? here - columns : now->ghosts, here,
                 row + 1 < count ? here + columns : now->ghosts + columns, columns);
    }
}

/* Rows a second of this rank alone. */
static double speed(int64_t columns) {
    enum { ROWS = 16 };
    struct field now = {rows_of_cells(ROWS + 2, columns), NULL, MPI_WIN_NULL}, next = {rows_of_cells(ROWS, columns), NULL, MPI_WIN_NULL};
    now.ghosts = now.rows + ROWS * columns;
    double start = MPI_Wtime(), now_s;
    int64_t done = 0;
    do {
        step_rows(&next, &now, 0, ROWS, ROWS, columns);
        done += ROWS;
        now_s = MPI_Wtime();
    } while (now_s - start < 0.05);
    free(now.rows);
    free(next.rows);
    return (double)done / (now_s - start);
}

/* A field of which the neighbours may write the ghosts, if `one_sided`. */
static struct field field_of(int64_t rows, int64_t columns, int one_sided) {
    struct field field = {rows_of_cells(rows, columns), NULL, MPI_WIN_NULL};
    if (one_sided) {
        MPI_Win_allocate((MPI_Aint)(2 * columns * (int64_t)sizeof(int32_t)), sizeof(int32_t), MPI_INFO_NULL, MPI_COMM_WORLD,
                         &field.ghosts, &field.window);
    } else {
        field.ghosts = rows_of_cells(2, columns);
    }
    return field;
}

static void release(struct field *field) {
    free(field->rows);
    if (field->window != MPI_WIN_NULL) {
        MPI_Win_free(&field->window);
    } else {
        free(field->ghosts);
    }
}

/* Cuts the rows by the ranks' speeds; every rank has two at least. */
static struct block share(const struct options *options) {
    double own = options->equal ? 1.0 : speed(options->columns), sum = 0;
    double *speeds = malloc((size_t)size * sizeof *speeds);
    if (!speeds) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Allgather(&own, 1, MPI_DOUBLE, speeds, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) sum += speeds[i];
    struct block block = {.columns = options->columns, .above = (rank + size - 1) % size, .below = (rank + 1) % size};
    int64_t spare = options->rows - 2 * (int64_t)size, given = 0;
    double before = 0;
    for (int i = 0; i <= rank; i++) {
        before += speeds[i];
        int64_t until = i + 1 == size ? spare : (int64_t)((double)spare * (before / sum));
        block.first = given + 2 * (int64_t)i;
        block.count = until - given + 2;
        given = until;
    }
    free(speeds);
    block.now = field_of(block.count, block.columns, options->exchange != TWO_SIDED);
    block.next = field_of(block.count, block.columns, options->exchange != TWO_SIDED);
    for (int64_t row = 0; row < block.count; row++) {
        for (int64_t column = 0; column < block.columns; column++) {
            block.now.rows[row * block.columns + column] = seed(block.first + row, column);
        }
    }
    MPI_Group world;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    int ranks[2] = {block.above, block.below};
    MPI_Group_incl(world, block.above == block.below ? 1 : 2, ranks, &block.neighbours);
    MPI_Group_free(&world);
    return block;
}

static int32_t *last_row(const struct block *block) {
    return block->now.rows + (block->count - 1) * block->columns;
}

/* All rows but the first and the last, which wait for the neighbours'. */
static void compute_inner(struct block *block) {
    step_rows(&block->next, &block->now, 1, block->count - 1, block->count, block->columns);
}

static void compute_borders(struct block *block) {
    step_rows(&block->next, &block->now, 0, 1, block->count, block->columns);
    step_rows(&block->next, &block->now, block->count - 1, block->count, block->count, block->columns);
}

static void two_sided_step(struct block *block) {
    MPI_Request requests[4];
    int columns = (int)block->columns;
    MPI_Irecv(block->now.ghosts, columns, MPI_INT32_T, block->above, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(block->now.ghosts + columns, columns, MPI_INT32_T, block->below, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(block->now.rows, columns, MPI_INT32_T, block->above, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(last_row(block), columns, MPI_INT32_T, block->below, 0, MPI_COMM_WORLD, &requests[3]);
    compute_inner(block);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    compute_borders(block);
}

/* The first row is the ghost below the neighbour above, and the last the one above the neighbour below. */
static void put_borders(struct block *block) {
    int columns = (int)block->columns;
    MPI_Put(block->now.rows, columns, MPI_INT32_T, block->above, columns, columns, MPI_INT32_T, block->now.window);
    MPI_Put(last_row(block), columns, MPI_INT32_T, block->below, 0, columns, MPI_INT32_T, block->now.window);
}

/* The fence that ends a step's puts begins those of the step after the next, which go to the same ghosts; no neighbour gets there
 * before it has passed the next step's fence, and so not before these ghosts have been read. */
static void fence_step(struct block *block) {
    put_borders(block);
    compute_inner(block);
    MPI_Win_fence(0, block->now.window);
    compute_borders(block);
}

/* The step before has read the ghosts of the next one, so they are posted before a neighbour starts: no process waits there. */
static void pscw_step(struct block *block, int is_last) {
    if (!is_last) MPI_Win_post(block->neighbours, 0, block->next.window);
    MPI_Win_start(block->neighbours, 0, block->now.window);
    put_borders(block);
    MPI_Win_complete(block->now.window);
    compute_inner(block);
    MPI_Win_wait(block->now.window);
    compute_borders(block);
}

static void run(struct block *block, const struct options *options) {
    if (options->exchange == FENCE) {
        MPI_Win_fence(MPI_MODE_NOPRECEDE, block->now.window);
        MPI_Win_fence(MPI_MODE_NOPRECEDE, block->next.window);
    } else if (options->exchange == PSCW) {
        MPI_Win_post(block->neighbours, 0, block->now.window);
    }
    for (int64_t step = 0; step < options->steps; step++) {
        switch (options->exchange) {
        case TWO_SIDED: two_sided_step(block); break;
        case FENCE: fence_step(block); break;
        case PSCW: pscw_step(block, step + 1 == options->steps); break;
        }
        struct field swapped = block->now;
        block->now = block->next;
        block->next = swapped;
    }
    if (options->exchange == FENCE) {
        MPI_Win_fence(MPI_MODE_NOSUCCEED, block->now.window);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, block->next.window);
    }
}

/* A sum that depends on where each cell is, so that what is shifted differs. */
static uint64_t digest(const int32_t *cells, int64_t first, int64_t count, int64_t columns) {
    uint64_t sum = 0;
    for (int64_t row = 0; row < count; row++) {
        for (int64_t column = 0; column < columns; column++) {
            uint64_t place = (uint64_t)((first + row) * columns + column);
            sum += (uint64_t)(uint32_t)cells[row * columns + column] * (2 * place + 1);
        }
    }
    return sum;
}

/* The same, by one rank alone. */
static uint64_t digest_alone(const struct options *options) {
    int64_t rows = options->rows, columns = options->columns;
    struct field now = field_of(rows, columns, 0), next = field_of(rows, columns, 0);
    size_t row_bytes = (size_t)columns * sizeof *now.rows;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t column = 0; column < columns; column++) now.rows[row * columns + column] = seed(row, column);
    }
    for (int64_t step = 0; step < options->steps; step++) {
        memcpy(now.ghosts, now.rows + (rows - 1) * columns, row_bytes);
        memcpy(now.ghosts + columns, now.rows, row_bytes);
        step_rows(&next, &now, 0, rows, rows, columns);
        struct field swapped = now;
        now = next;
        next = swapped;
    }
    uint64_t sum = digest(now.rows, 0, rows, columns);
    release(&now);
    release(&next);
    return sum;
}

static void report(const struct options *options, double elapsed_s, uint64_t sum, int64_t own_rows) {
    int64_t *rows = malloc((size_t)size * sizeof *rows);
    if (!rows) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Gather(&own_rows, 1, MPI_INT64_T, rows, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    char(*places)[MPI_MAX_PROCESSOR_NAME] = calloc((size_t)size, sizeof *places), place[MPI_MAX_PROCESSOR_NAME] = "";
    int length;
    if (!places) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Get_processor_name(place, &length);
    MPI_Gather(place, sizeof place, MPI_CHAR, places, sizeof place, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        double step_us = elapsed_s / (double)options->steps * 1e6;
        double cells = (double)options->rows * (double)options->columns * (double)options->steps;
        if (options->json) {
            printf("{\"exchange\": \"%s\", \"ranks\": %d, \"rows\": %" PRId64 ", \"columns\": %" PRId64 ", \"steps\": %" PRId64
                   ", \"elapsed_s\": %.6f, \"step_us\": %.3f, \"cells_per_s\": %.0f, \"digest\": \"%016" PRIx64 "\"}\n",
                   exchange_names[options->exchange], size, options->rows, options->columns, options->steps, elapsed_s, step_us,
                   cells / elapsed_s, sum);
        } else {
            printf("%" PRId64 " x %" PRId64 " cells, %" PRId64 " steps, %d ranks, %s: %.3f s, %.1f us a step, %.0f million cells/s\n",
                   options->rows, options->columns, options->steps, size, exchange_names[options->exchange], elapsed_s, step_us,
                   cells / elapsed_s / 1e6);
            printf("rows of each rank:");
            for (int i = 0; i < size; i++) printf("%s %" PRId64 " on %s", i ? "," : "", rows[i], places[i]);
            printf("\ndigest %016" PRIx64 "\n", sum);
        }
    }
    free(rows);
    free(places);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    struct options options = options_of(argc, argv);
    struct block block = share(&options);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    run(&block, &options);
    double own_s = MPI_Wtime() - start, elapsed_s;
    MPI_Allreduce(&own_s, &elapsed_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    uint64_t own = digest(block.now.rows, block.first, block.count, block.columns), sum;
    MPI_Allreduce(&own, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    report(&options, elapsed_s, sum, block.count);
    int wrong = 0;
    if (options.verify && rank == 0) {
        uint64_t alone = digest_alone(&options);
        wrong = alone != sum;
        fflush(stdout);
        if (wrong) {
            fprintf(stderr, "automaton: one rank alone comes to %016" PRIx64 ", %d ranks to %016" PRIx64 "\n", alone, size, sum);
        } else if (!options.json) {
            printf("verified: one rank alone comes to the same\n");
        }
    }
    MPI_Bcast(&wrong, 1, MPI_INT, 0, MPI_COMM_WORLD);
    release(&block.now);
    release(&block.next);
    MPI_Group_free(&block.neighbours);
    MPI_Finalize();
    return wrong;
}
