/* A client of the key-value service whose server answers what is wrong: only that call fails, and all of it is counted.
 *
 * The library is not linked. What stubs need of it stands here, and plays the server: each call of a client is answered with
 * messages that were written down before. */
#include <stdio.h>
#include <stdlib.h>

#include "kv.h"

/* --- what there is in place of the library ------------------------------------------------------------------------- */

#define MAX_MESSAGE 4096
#define MAX_QUEUE 8

struct tombolo_channel {
    uint8_t messages[MAX_QUEUE][MAX_MESSAGE];
    size_t lengths[MAX_QUEUE];
    int first, count;
    uint32_t call; /* of the last call that was sent */
    uint64_t now_ns;
};

static tombolo_channel server;

size_t tombolo_max_message_bytes(const tombolo_channel *channel)
{
    (void)channel;
    return MAX_MESSAGE;
}

uint64_t tombolo_now_ns(void)
{
    return server.now_ns;
}

static const char *explanation = "";

tombolo_status tombolo_explain(tombolo_status status, const char *what)
{
    explanation = what;
    return status;
}

tombolo_status tombolo_receive(tombolo_channel *channel, void *buffer, size_t capacity, size_t *length, uint64_t timeout_ns)
{
    if (channel->count == 0) {
        channel->now_ns += timeout_ns;
        return timeout_ns == 0 ? TOMBOLO_WOULD_BLOCK : TOMBOLO_TIMED_OUT;
    }
    *length = channel->lengths[channel->first];
    if (*length > capacity) {
        return TOMBOLO_BUFFER_TOO_SHORT;
    }
    memcpy(buffer, channel->messages[channel->first], *length);
    channel->first++;
    channel->count--;
    return TOMBOLO_OK;
}

/* Every answer that waits is one to this call. */
tombolo_status tombolo_send(tombolo_channel *channel, const void *message, size_t length, uint64_t timeout_ns)
{
    const uint8_t *bytes = (const uint8_t *)message;
    (void)timeout_ns;
    if (length >= 8 && bytes[4] == TOMBOLO_CALL) {
        for (int index = channel->first; index < channel->first + channel->count; index++) {
            uint8_t *answer = channel->messages[index];
            if (channel->lengths[index] >= 8 && answer[4] >= TOMBOLO_REPLY && answer[5] == 0) {
                memcpy(answer + 5, bytes + 5, 3);
            }
        }
    }
    return TOMBOLO_OK;
}

/* --- answers ------------------------------------------------------------------------------------------------------- */

static void must(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

/* Puts words into the queue as one message, without the last `cut` bytes. */
static void queue_words(const uint64_t *words, size_t count, size_t cut)
{
    const int index = server.first + server.count++;
    must(index < MAX_QUEUE, "too many messages");
    for (size_t word = 0; word < count; word++) {
        tombolo_store_le(server.messages[index] + 8 * word, words[word], 8);
    }
    server.lengths[index] = 8 * count - cut;
}

#define QUEUE(cut, ...)                                                                         \
    do {                                                                                        \
        const uint64_t words[] = {__VA_ARGS__};                                                 \
        queue_words(words, sizeof words / sizeof *words, cut);                                  \
    } while (0)

#define HEAD(ordinal, words, kind) ((uint64_t)(ordinal) | (uint64_t)(words) << 16 | (uint64_t)(kind) << 32)
#define TO_CALL(call) ((uint64_t)(call) << 40)
#define REFER(offset, count) ((uint64_t)(offset) | (uint64_t)(count) << 32)

static uint64_t received_versions;

static void changed(void *context, const example_kv_changed *event)
{
    (void)context;
    received_versions += event->version;
}

static const example_kv_events events = {changed};
static example_kv_client client;

static void expect_get(const char *what, tombolo_status expected)
{
    const example_kv_get_request request = {{"isle", 4}};
    example_kv_get_reply reply;
    example_kv_error error = 0;
    tombolo_status status;
    explanation = "";
    status = example_kv_call_get(&client, &request, &reply, &error, TOMBOLO_SECOND);
    if (status != expected) {
        fprintf(stderr, "%s: status %d, not %d\n", what, (int)status, (int)expected);
        exit(1);
    }
    must(status != TOMBOLO_OK || (reply.version == 7 && reply.value.length == 4), what);
    must(status != TOMBOLO_DECLINED || error == EXAMPLE_KV_ERROR_FULL, what);
    must(status != TOMBOLO_DECLINED || strstr(explanation, "the server declined the call") != NULL, "a declined call");
    must((status == TOMBOLO_OK) == (explanation[0] == '\0'), "every failure has a text, and only a failure");
    must(server.count == 0, what);
    server.first = 0;
}

static void expect_list(const char *what, tombolo_status expected)
{
    const example_kv_list_request request = {{"", 0}};
    example_kv_list_reply reply;
    const tombolo_status status = example_kv_call_list(&client, &request, &reply, TOMBOLO_SECOND);
    if (status != expected) {
        fprintf(stderr, "%s: status %d, not %d\n", what, (int)status, (int)expected);
        exit(1);
    }
    server.first = 0;
}

static void queue_valid_answer(void)
{
    QUEUE(0, HEAD(1, 2, TOMBOLO_REPLY), REFER(24, 4), 7, 0x646e6173);
}

/* Expects a refusal, after which the client still works. */
static void expect_refused(const char *what)
{
    const uint64_t malformed = client.base.port.counts.malformed;
    expect_get(what, TOMBOLO_MALFORMED);
    must(client.base.port.counts.malformed == malformed + 1, what);
    queue_valid_answer();
    expect_get("a good answer after a bad one", TOMBOLO_OK);
}

static void test_refused_answers(void)
{
    QUEUE(0, HEAD(2, 2, TOMBOLO_REPLY), REFER(24, 4), 7, 0);
    expect_refused("an answer to another call");
    QUEUE(0, HEAD(1, 2, TOMBOLO_REPLY), REFER(24, 9), 7, 0);
    expect_refused("bytes that end behind the message");
    QUEUE(0, HEAD(1, 2, TOMBOLO_REPLY), REFER(20, 4), 7, 0);
    expect_refused("bytes that are not aligned");
    QUEUE(0, HEAD(1, 2, TOMBOLO_REPLY), REFER(0, 4), 7, 0);
    expect_refused("bytes over the header");
    QUEUE(0, HEAD(1, 2, TOMBOLO_REPLY), REFER(UINT32_MAX & ~UINT32_C(7), 4), 7, 0);
    expect_refused("bytes at the end of the address space");
    QUEUE(0, HEAD(1, 2, TOMBOLO_REPLY), REFER(24, 2049), 7, 0);
    expect_refused("more bytes than the interface allows");
    QUEUE(0, HEAD(1, 2, TOMBOLO_REPLY), REFER(24, UINT32_MAX), 7, 0);
    expect_refused("as many bytes as can be said");
}

static void test_list_answers(void)
{
    QUEUE(0, HEAD(3, 1, TOMBOLO_REPLY), REFER(16, 1), REFER(24, 1), 0xff);
    expect_list("a key that is not UTF-8", TOMBOLO_MALFORMED);
    QUEUE(0, HEAD(3, 1, TOMBOLO_REPLY), REFER(16, 65), 0, 0);
    expect_list("more keys than the interface allows", TOMBOLO_MALFORMED);
    QUEUE(0, HEAD(3, 1, TOMBOLO_ERROR), 1);
    expect_list("an error where the interface declares none", TOMBOLO_MALFORMED);
    /* Two lists at the same place: overlapping parts are not read repeatedly. */
    QUEUE(0, HEAD(3, 1, TOMBOLO_REPLY), REFER(16, 2), REFER(16, 16), REFER(16, 16));
    expect_list("parts that overlap", TOMBOLO_MALFORMED);
    QUEUE(0, HEAD(3, 1, TOMBOLO_REPLY), REFER(16, 1), REFER(24, 2), 0xa4c3);
    expect_list("a key of one letter", TOMBOLO_OK);
}

static void test_faults_and_timeouts(void)
{
    static const tombolo_status status_of_fault[] = {TOMBOLO_UNKNOWN_CALL,    TOMBOLO_REQUEST_REFUSED, TOMBOLO_UNSERVED,
                                                     TOMBOLO_ANSWER_TOO_LONG, TOMBOLO_SERVER_BUSY,     TOMBOLO_RIGHT_REFUSED,
                                                     TOMBOLO_FAULT};
    for (uint64_t fault = 1; fault <= 7; fault++) {
        QUEUE(0, HEAD(1, 1, TOMBOLO_NOT_SERVED), fault);
        expect_get("a fault", status_of_fault[fault - 1]);
    }
    QUEUE(0, HEAD(1, 1, TOMBOLO_ERROR), EXAMPLE_KV_ERROR_FULL);
    expect_get("an error", TOMBOLO_DECLINED);
    expect_get("no answer", TOMBOLO_TIMED_OUT);
}

/* Messages that belong to no call do not prevent its answer. */
static void test_unrelated_messages(void)
{
    const tombolo_counts before = client.base.port.counts;
    const tombolo_counts *counts = &client.base.port.counts;
    QUEUE(4, HEAD(1, 2, TOMBOLO_REPLY), REFER(24, 4), 7, 0);               /* within a word */
    QUEUE(0, HEAD(1, 9, TOMBOLO_REPLY), REFER(24, 4), 7, 0);               /* shorter than it says */
    QUEUE(0, HEAD(1, 0, 9) | TO_CALL(1));                                  /* of no kind */
    QUEUE(0, HEAD(1, 2, TOMBOLO_REPLY) | TO_CALL(0x7fffff), 0, 7);         /* to a call of long ago */
    QUEUE(0, HEAD(6, 2, TOMBOLO_MESSAGE), REFER(24, 1), 5, 0xff);          /* an event with a key that is not UTF-8 */
    QUEUE(0, HEAD(99, 0, TOMBOLO_MESSAGE));                                /* an event that is unknown */
    QUEUE(0, HEAD(6, 2, TOMBOLO_MESSAGE), REFER(24, 1), 5, 'k');           /* a good one */
    queue_valid_answer();
    received_versions = 0;
    expect_get("an answer after all sorts of things", TOMBOLO_OK);
    must(received_versions == 5, "only the good event is received");
    must(counts->malformed == before.malformed + 4, "malformed messages are counted");
    must(counts->late == before.late + 1, "late answers are counted");
    must(counts->unknown == before.unknown + 1, "unknown messages are counted");
    must(counts->messages == before.messages + 1, "received events are counted");
}

int main(void)
{
    static uint8_t memory[1 << 14];
    const tombolo_status status = example_kv_client_bind(&client, &server, memory, sizeof memory, &events, NULL);
    must(status == TOMBOLO_OK, "bind");
    queue_valid_answer();
    expect_get("a good answer", TOMBOLO_OK);
    test_refused_answers();
    test_list_answers();
    test_faults_and_timeouts();
    test_unrelated_messages();
    printf("%llu calls, %llu refused\n", (unsigned long long)client.base.port.counts.calls,
           (unsigned long long)client.base.port.counts.malformed);
    return 0;
}
