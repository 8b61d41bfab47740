/* Two domains send a message back and forth: `tombolo run --on host,arm0 @name@.tbi` */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tombolo.h>

#define ROUNDS 10000
#define PATIENCE (30 * TOMBOLO_SECOND)

/* Ends the program unless something went well. */
static void must(tombolo_status status, const char *what)
{
    if (status != TOMBOLO_OK) {
        fprintf(stderr, "@name@: %s: %s\n", what, tombolo_last_error());
        exit(1);
    }
}

static int by_size(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

/* Rank 0 takes up the name, waits for the other to connect, and measures. */
static void measure(tombolo_domain *domain, const char *name)
{
    static uint64_t times_ns[ROUNDS];
    tombolo_listener *listener;
    tombolo_channel *channel;
    must(tombolo_export(domain, name, NULL, &listener), "take up the name");
    must(tombolo_accept(listener, PATIENCE, &channel), "accept");
    for (uint32_t round = 0; round < ROUNDS; round++) {
        /* The next machine may have a processor of the other byte order: bytes in a fixed one. */
        const uint8_t sent[4] = {(uint8_t)round, (uint8_t)(round >> 8), (uint8_t)(round >> 16), (uint8_t)(round >> 24)};
        uint8_t received[sizeof sent];
        size_t length;
        const uint64_t start_ns = tombolo_now_ns();
        must(tombolo_send(channel, sent, sizeof sent, PATIENCE), "send");
        must(tombolo_receive(channel, received, sizeof received, &length, PATIENCE), "receive");
        times_ns[round] = tombolo_now_ns() - start_ns;
        if (length != sizeof sent || memcmp(received, sent, sizeof sent) != 0) {
            fprintf(stderr, "@name@: something else came back\n");
            exit(1);
        }
    }
    qsort(times_ns, ROUNDS, sizeof *times_ns, by_size);
    printf("%s -> %s: %d round trips, median %.2f us\n", tombolo_node_name(domain), tombolo_peer_node(channel), ROUNDS,
           (double)times_ns[ROUNDS / 2] / 1000);
    must(tombolo_close(channel), "close");
    tombolo_unexport(listener);
}

/* Rank 1 connects, and returns every message until rank 0 closes the channel. */
static void return_all(tombolo_domain *domain, const char *name)
{
    tombolo_channel *channel;
    tombolo_status status;
    uint8_t message[64];
    size_t length;
    must(tombolo_connect(domain, name, NULL, PATIENCE, &channel), "connect");
    while ((status = tombolo_receive(channel, message, sizeof message, &length, PATIENCE)) == TOMBOLO_OK) {
        must(tombolo_send(channel, message, length, PATIENCE), "send");
    }
    must(status == TOMBOLO_CLOSED ? TOMBOLO_OK : status, "receive");
    must(tombolo_close(channel), "close");
}

int main(void)
{
    /* What `tombolo run` tells each domain: its number, how many there are, a prefix for names of its own job. */
    const char *rank = getenv("TOMBOLO_RANK"), *size = getenv("TOMBOLO_SIZE"), *job = getenv("TOMBOLO_JOB");
    char name[128];
    tombolo_domain *domain;
    if (rank == NULL || size == NULL || job == NULL || strcmp(size, "2") != 0) {
        fprintf(stderr, "@name@: start two of me: tombolo run --on host,arm0 @name@.tbi\n");
        return 1;
    }
    snprintf(name, sizeof name, "%s/ping", job);
    must(tombolo_attach(&domain), "attach");
    if (strcmp(rank, "0") == 0) {
        measure(domain, name);
    } else {
        return_all(domain, name);
    }
    tombolo_detach(domain);
    return 0;
}
