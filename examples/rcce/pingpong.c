/* Two ranks send a message back and forth, by length: RCCE's ping-pong.
 *
 *   tombolo build examples/rcce/pingpong.c
 *   tombolo rccerun -nue 2 --on host,arm0 pingpong.tbi [LONGEST [ROUNDS]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <RCCE.h>

static int failed(const char *what) {
    fprintf(stderr, "rank %d: %s\n", RCCE_ue(), what);
    return 1;
}

/* The byte at a place of the message of a round, so that a stale or torn one is noticed. */
static char byte_of(size_t place, int round) { return (char)(place * 7 + (size_t)round * 13); }

static int exchange(char *message, size_t size, int rounds, int own) {
    for (int round = 0; round < rounds; round++) {
        if (own == 0) {
            for (size_t i = 0; i < size; i++) message[i] = byte_of(i, round);
            if (RCCE_send(message, size, 1)) return failed("send");
            memset(message, 0, size);
        }
        if (RCCE_recv(message, size, 1 - own)) return failed("receive");
        if (own == 1 && RCCE_send(message, size, 0)) return failed("send");
        for (size_t i = 0; i < size; i++)
            if (message[i] != byte_of(i, round)) return failed("wrong bytes");
    }
    return 0;
}

int RCCE_APP(int argc, char **argv) {
    RCCE_init(&argc, &argv);
    size_t longest = argc > 1 ? strtoul(argv[1], NULL, 10) : 256 << 10;
    int rounds = argc > 2 ? atoi(argv[2]) : 100, own = RCCE_ue(), result = 0;
    char *message = malloc(longest);
    if (RCCE_num_ues() < 2) return failed("this needs two ranks");
    if (message == NULL) return failed("no memory");
    for (size_t size = 8; size <= longest && own < 2 && result == 0; size *= 4) {
        double start = RCCE_wtime();
        result = exchange(message, size, rounds, own);
        double seconds = (RCCE_wtime() - start) / rounds / 2;
        if (own == 0 && result == 0) printf("%8zu bytes  %9.2f us  %8.1f MB/s\n", size, seconds * 1e6, size / seconds / 1e6);
    }
    if (result == 0 && own == 0) printf("ping-pong: all bytes arrived\n");
    free(message);
    return RCCE_finalize() || result;
}
