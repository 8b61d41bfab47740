/* Two domains send a message back and forth: `tombolo run --on host,arm0 @name@.tbi` */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tombolo.h>

#define ROUNDS 10000
#define TIMEOUT TOMBOLO_DEFAULT_TIMEOUT

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

/* Rank 0 sends each message when the one before has come back, and measures. */
static void measure(tombolo_domain *domain, tombolo_channel *channel)
{
    static uint64_t times_ns[ROUNDS];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        /* The next machine may have a processor of the other byte order: bytes in a fixed one. */
        const uint8_t sent[4] = {(uint8_t)round, (uint8_t)(round >> 8), (uint8_t)(round >> 16), (uint8_t)(round >> 24)};
        uint8_t received[sizeof sent];
        size_t length;
        const uint64_t start_ns = tombolo_now_ns();
        must(tombolo_send(channel, sent, sizeof sent, TIMEOUT), "send");
        must(tombolo_receive(channel, received, sizeof received, &length, TIMEOUT), "receive");
        times_ns[round] = tombolo_now_ns() - start_ns;
        if (length != sizeof sent || memcmp(received, sent, sizeof sent) != 0) {
            fprintf(stderr, "@name@: something else came back\n");
            exit(1);
        }
    }
    qsort(times_ns, ROUNDS, sizeof *times_ns, by_size);
    printf("%s -> %s: %d round trips, median %.2f us\n", tombolo_node_name(domain), tombolo_peer_node(channel), ROUNDS,
           (double)times_ns[ROUNDS / 2] / 1000);
}

/* Rank 1 returns every message until rank 0 closes the channel. */
static void return_all(tombolo_channel *channel)
{
    tombolo_status status;
    uint8_t message[64];
    size_t length;
    while ((status = tombolo_receive(channel, message, sizeof message, &length, TIMEOUT)) == TOMBOLO_OK) {
        must(tombolo_send(channel, message, length, TIMEOUT), "send");
    }
    must(status == TOMBOLO_CLOSED ? TOMBOLO_OK : status, "receive");
}

int main(void)
{
    tombolo_domain *domain;
    tombolo_job job;
    tombolo_channel *channel;
    must(tombolo_attach(&domain), "attach");
    must(tombolo_get_job(domain, &job), "find the job");
    if (job.size != 2) {
        fprintf(stderr, "@name@: start two of me: tombolo run --on host,arm0 @name@.tbi\n");
        return 1;
    }
    must(tombolo_job_channel(domain, 1 - job.rank, TIMEOUT, &channel), "open the channel");
    if (job.rank == 0) {
        measure(domain, channel);
    } else {
        return_all(channel);
    }
    must(tombolo_close(channel), "close");
    tombolo_detach(domain);
    return 0;
}
