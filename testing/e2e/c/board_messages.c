/* Calls of tombolo.h that programs on boards have, each with its result checked; run by two ranks on any nodes. Each ends
 * with "all as it should be". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tombolo.h>

#define PATIENCE TOMBOLO_DEFAULT_TIMEOUT
#define SHORT (20 * TOMBOLO_MILLISECOND)

static tombolo_domain *domain;
static tombolo_job job;

#define CHECK(condition)                                                                                   \
    do {                                                                                                   \
        if (!(condition)) {                                                                                \
            printf("rank %u, line %d: %s: %s\n", (unsigned)job.rank, __LINE__, #condition,                 \
                   tombolo_last_error());                                                                  \
            exit(1);                                                                                       \
        }                                                                                                  \
    } while (0)

/* The job's own name for a channel of `rank`. */
static const char *name_of(const char *what, uint32_t rank) {
    static char name[128];
    char own[32];
    snprintf(own, sizeof own, "%s-%u", what, (unsigned)rank);
    CHECK(tombolo_job_name(domain, own, name, sizeof name) == TOMBOLO_OK);
    return name;
}

/* Tests without another program. */
static void test_without_peer(void) {
    tombolo_listener *listener;
    tombolo_channel *channel;
    char name[4];
    CHECK(tombolo_attach(NULL) == TOMBOLO_INVALID_ARGUMENT);
    CHECK(strstr(tombolo_last_error(), "null") != NULL);
    CHECK(strcmp(tombolo_error_name(TOMBOLO_PEER_DIED), "TOMBOLO_PEER_DIED") == 0);
    CHECK(tombolo_domain_id(domain) != 0 && tombolo_was_spawned(domain) && tombolo_machine_name(domain)[0] != 0);
    CHECK(tombolo_export(domain, NULL, NULL, &listener) == TOMBOLO_INVALID_ARGUMENT);
    CHECK(tombolo_export(domain, "two words", NULL, &listener) == TOMBOLO_BAD_NAME);
    CHECK(tombolo_job_name(domain, "name", name, sizeof name) == TOMBOLO_BUFFER_TOO_SHORT);
    CHECK(tombolo_job_channel(domain, 99, PATIENCE, &channel) == TOMBOLO_NOT_IN_JOB);
    const tombolo_options odd = {.slot_bytes = 48}, unknown = {.flags = 8};
    CHECK(tombolo_export(domain, "odd", &odd, &listener) == TOMBOLO_INVALID_ARGUMENT);
    CHECK(strstr(tombolo_last_error(), "32, 64 or 128") != NULL);
    CHECK(tombolo_export(domain, "odd", &unknown, &listener) == TOMBOLO_INVALID_ARGUMENT);
    CHECK(tombolo_export(domain, name_of("alone", job.rank), NULL, &listener) == TOMBOLO_OK);
    tombolo_listener *second;
    CHECK(tombolo_export(domain, name_of("alone", job.rank), NULL, &second) == TOMBOLO_NAME_TAKEN);
    CHECK(tombolo_accept(listener, 0, &channel) == TOMBOLO_TIMED_OUT);
    const uint64_t start_ns = tombolo_now_ns();
    CHECK(tombolo_accept(listener, SHORT, &channel) == TOMBOLO_TIMED_OUT);
    CHECK(tombolo_now_ns() - start_ns >= SHORT);
    tombolo_unexport(listener);
    CHECK(tombolo_connect(domain, name_of("alone", job.rank), NULL, SHORT, &channel) == TOMBOLO_NO_SUCH_NAME);
}

/* Tests two channels to rank 1, which reads `data` only when requested to on `orders`. */
static void run_rank_0(tombolo_channel *data, tombolo_channel *orders) {
    char buffer[64], *longest = calloc(1, tombolo_max_message_bytes(data) + 1);
    size_t length, index;
    CHECK(longest != NULL);
    CHECK(tombolo_receive(data, buffer, sizeof buffer, &length, 0) == TOMBOLO_WOULD_BLOCK);
    CHECK(tombolo_receive(data, buffer, sizeof buffer, &length, SHORT) == TOMBOLO_TIMED_OUT);
    CHECK(tombolo_receive(data, buffer, sizeof buffer, NULL, 0) == TOMBOLO_INVALID_ARGUMENT);
    CHECK(tombolo_wait(&data, 1, SHORT, &index) == TOMBOLO_TIMED_OUT);
    CHECK(tombolo_send(data, longest, tombolo_max_message_bytes(data) + 1, PATIENCE) == TOMBOLO_TOO_LONG);
    CHECK(tombolo_peer(data) != 0 && tombolo_channel_id(data) != tombolo_channel_id(orders));
    uint32_t sent = 0;
    while (tombolo_send(data, &sent, sizeof sent, 0) == TOMBOLO_OK) sent++;
    CHECK(sent > 8 && tombolo_send(data, &sent, sizeof sent, 0) == TOMBOLO_WOULD_BLOCK);
    CHECK(tombolo_send(data, &sent, sizeof sent, SHORT) == TOMBOLO_TIMED_OUT);
    tombolo_stats stats;
    CHECK(tombolo_channel_stats(data, &stats) == TOMBOLO_OK && stats.messages_sent == sent);
    CHECK(tombolo_send(orders, "count", 5, PATIENCE) == TOMBOLO_OK);
    CHECK(tombolo_send(data, "end", 3, PATIENCE) == TOMBOLO_OK);
    tombolo_channel *both[2] = {orders, data};
    CHECK(tombolo_wait(both, 2, PATIENCE, &index) == TOMBOLO_OK && index == 1);
    CHECK(tombolo_receive(data, buffer, 4, &length, PATIENCE) == TOMBOLO_BUFFER_TOO_SHORT && length > 4);
    CHECK(tombolo_wait(both, 2, PATIENCE, &index) == TOMBOLO_OK && index == 1);
    CHECK(tombolo_receive(data, buffer, sizeof buffer, &length, PATIENCE) == TOMBOLO_OK);
    buffer[length] = 0;
    CHECK((uint32_t)atoi(buffer + 8) == sent && memcmp(buffer, "counted ", 8) == 0);
    CHECK(tombolo_receive(data, buffer, sizeof buffer, &length, PATIENCE) == TOMBOLO_CLOSED);
    CHECK(strstr(tombolo_last_error(), tombolo_peer_node(data)) != NULL);
    CHECK(tombolo_send(data, "x", 1, PATIENCE) == TOMBOLO_CLOSED);
    CHECK(tombolo_carry(data, false, false) == TOMBOLO_OK);
    CHECK(tombolo_send(orders, "end", 3, PATIENCE) == TOMBOLO_OK);
    CHECK(tombolo_receive(orders, buffer, sizeof buffer, &length, PATIENCE) == TOMBOLO_PEER_DIED);
    free(longest);
}

/* Rank 1 ends with open channels. */
static void run_rank_1(tombolo_channel *data, tombolo_channel *orders) {
    char message[64];
    size_t length;
    uint32_t count = 0;
    CHECK(tombolo_receive(orders, message, sizeof message, &length, PATIENCE) == TOMBOLO_OK);
    while (tombolo_receive(data, message, sizeof message, &length, PATIENCE) == TOMBOLO_OK && length == 4) count++;
    CHECK(length == 3 && memcmp(message, "end", 3) == 0);
    snprintf(message, sizeof message, "counted %u", (unsigned)count);
    CHECK(tombolo_send(data, message, strlen(message), PATIENCE) == TOMBOLO_OK);
    CHECK(tombolo_close(data) == TOMBOLO_OK);
    CHECK(tombolo_receive(orders, message, sizeof message, &length, PATIENCE) == TOMBOLO_OK);
}

int main(void) {
    tombolo_listener *listener;
    tombolo_channel *data, *orders, *refused;
    CHECK(tombolo_attach(&domain) == TOMBOLO_OK && tombolo_get_job(domain, &job) == TOMBOLO_OK && job.size == 2);
    test_without_peer();
    CHECK(tombolo_job_channel(domain, 1 - job.rank, PATIENCE, &orders) == TOMBOLO_OK);
    const tombolo_options some = {.slot_bytes = 32, .slots = 16, .interface_hash = 7}, others = {.interface_hash = 8};
    if (job.rank == 1) {
        CHECK(tombolo_export(domain, name_of("data", 1), &some, &listener) == TOMBOLO_OK);
        CHECK(tombolo_accept(listener, PATIENCE, &refused) == TOMBOLO_REFUSED);
        CHECK(tombolo_accept(listener, PATIENCE, &data) == TOMBOLO_OK);
        tombolo_unexport(listener);
        run_rank_1(data, orders);
    } else {
        CHECK(tombolo_connect(domain, name_of("data", 1), &others, PATIENCE, &refused) == TOMBOLO_REFUSED);
        CHECK(tombolo_connect(domain, name_of("data", 1), &some, PATIENCE, &data) == TOMBOLO_OK);
        run_rank_0(data, orders);
        CHECK(tombolo_close(data) == TOMBOLO_OK && tombolo_close(orders) == TOMBOLO_OK && tombolo_close(NULL) == TOMBOLO_OK);
        tombolo_detach(domain);
    }
    printf("rank %u: all as it should be\n", (unsigned)job.rank);
    return 0;
}
