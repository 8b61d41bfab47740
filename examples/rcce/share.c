/* Ranks share out work by a counter in memory that all of them read and write: RCCE's "share".
 *
 *   tombolo build examples/rcce/share.c
 *   tombolo rccerun -nue 4 share.tbi
 *
 * Each counts the primes in the pieces that it takes. The counter is guarded by a lock; where memory is not coherent,
 * RCCE_shflush makes what one rank stored visible to the next. Numbers are in network order.
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>

#include <RCCE.h>

enum { PIECES = 32, PIECE = 2000, EXPECTED = 6413 /* primes below 64,000 */ };

typedef struct {
    volatile uint32_t next;
    char padding[RCCE_LINE_SIZE - 4];
    /* A line for each piece: two ranks never write the same line. */
    struct {
        volatile uint32_t primes, rank;
        char padding[RCCE_LINE_SIZE - 8];
    } piece[PIECES];
} Shared;

static int is_prime(uint32_t n) {
    if (n < 2) return 0;
    for (uint32_t d = 2; d * d <= n; d++)
        if (n % d == 0) return 0;
    return 1;
}

/* The next piece that no rank has taken. */
static uint32_t take(Shared *shared) {
    RCCE_acquire_lock(0);
    RCCE_shflush();
    uint32_t piece = ntohl(shared->next);
    if (piece < PIECES) shared->next = htonl(piece + 1);
    RCCE_shflush();
    RCCE_release_lock(0);
    return piece;
}

int RCCE_APP(int argc, char **argv) {
    RCCE_init(&argc, &argv);
    int own = RCCE_ue();
    Shared *shared = (Shared *)RCCE_shmalloc(sizeof(Shared));
    if (shared == NULL) return 1;
    for (uint32_t piece; (piece = take(shared)) < PIECES;) {
        uint32_t primes = 0;
        for (uint32_t n = piece * PIECE; n < (piece + 1) * PIECE; n++) primes += is_prime(n);
        shared->piece[piece].primes = htonl(primes);
        shared->piece[piece].rank = htonl((uint32_t)own);
    }
    RCCE_shflush();
    RCCE_barrier(&RCCE_COMM_WORLD);
    RCCE_shflush();
    uint32_t total = 0, mine = 0;
    for (int piece = 0; piece < PIECES; piece++) {
        total += ntohl(shared->piece[piece].primes);
        mine += ntohl(shared->piece[piece].rank) == (uint32_t)own;
    }
    printf("share: rank %d did %u of %d pieces; all ranks found %u primes\n", own, mine, PIECES, total);
    RCCE_barrier(&RCCE_COMM_WORLD);
    RCCE_shfree((t_vcharp)shared);
    return RCCE_finalize() || total != EXPECTED;
}
