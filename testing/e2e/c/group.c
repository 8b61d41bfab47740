/*
 * A member of a group of programs in several languages. It does what `actor group` does, and prints the same lines: `member ID`, `left ID
 * DIED`, and at the end for each source `took ID COUNT HASH`, or with a total order `took all COUNT HASH`.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tombolo/group.h>

#define PATIENCE_NS (120 * TOMBOLO_SECOND)
#define LAST_WORDS 40
#define LONGEST 3000
#define MEMBERS 16

#define EXPECT(call, expected)                                                                             \
    do {                                                                                                   \
        tombolo_status status = (call);                                                                    \
        if (status != (expected)) {                                                                        \
            fprintf(stderr, "%s is %s: %s\n", #call, tombolo_error_name(status), tombolo_last_error());    \
            exit(1);                                                                                       \
        }                                                                                                  \
    } while (0)

/* Messages received from one source, or from all. */
struct taken {
    uint64_t source, count, hash;
};

struct audience {
    bool total;
    size_t joined, died, sources;
    struct taken of[MEMBERS];
    uint64_t last[MEMBERS];
    struct taken all;
};

/* Writes the message with a number: the number and bytes derived from it. Every seventh has several chunks. */
static size_t message(uint64_t number, unsigned char *bytes)
{
    size_t length = number % 7 == 0 ? LONGEST : 8 + (size_t)(number % 90);
    memset(bytes, (int)(number & 0xff), length);
    for (int byte = 0; byte < 8; byte++)
        bytes[byte] = (unsigned char)(number >> 8 * byte);
    return length;
}

static void hash(struct taken *taken, const unsigned char *bytes, size_t length)
{
    for (size_t index = 0; index < length; index++)
        taken->hash = (taken->hash ^ bytes[index]) * UINT64_C(0x100000001b3);
}

static void add(struct taken *taken, uint64_t from, const unsigned char *data, size_t length)
{
    unsigned char source[8];
    for (int byte = 0; byte < 8; byte++)
        source[byte] = (unsigned char)(from >> 8 * byte);
    if (taken->count++ == 0)
        taken->hash = UINT64_C(0xcbf29ce484222325);
    hash(taken, source, sizeof source);
    hash(taken, data, length);
}

static size_t source_index(struct audience *audience, uint64_t member)
{
    size_t index = 0;
    while (index < audience->sources && audience->of[index].source != member)
        index++;
    if (index == audience->sources && audience->sources++ == MEMBERS) {
        fprintf(stderr, "more than %d sources\n", MEMBERS);
        exit(1);
    }
    audience->of[index].source = member;
    return index;
}

static void handle_event(struct audience *audience, const tombolo_group_event *event, const unsigned char *data)
{
    if (event->kind == TOMBOLO_GROUP_JOINED) {
        audience->joined++;
    } else if (event->kind == TOMBOLO_GROUP_LEFT) {
        printf("left %" PRIu64 " %s\n", event->member, event->died ? "true" : "false");
        audience->died += event->died;
    } else {
        unsigned char expected[LONGEST];
        size_t index = source_index(audience, event->member);
        size_t length = message(++audience->last[index], expected);
        if (event->length != length || memcmp(data, expected, length) != 0) {
            fprintf(stderr, "message %" PRIu64 " of %" PRIu64 " is another\n", audience->last[index], event->member);
            exit(1);
        }
        add(audience->total ? &audience->all : &audience->of[index], event->member, data, length);
    }
}

/* Receives and handles an event; false if there is none. A buffer that is too short does not lose the message. */
static bool receive_event(struct audience *audience, tombolo_group *group, uint64_t timeout_ns)
{
    tombolo_group_event event;
    unsigned char data[LONGEST];
    tombolo_status status = tombolo_group_recv(group, &event, data, 64, timeout_ns);
    if (status == TOMBOLO_WOULD_BLOCK && timeout_ns == 0)
        return false;
    if (status == TOMBOLO_BUFFER_TOO_SHORT && event.length > 64)
        status = tombolo_group_recv(group, &event, data, sizeof data, 0);
    EXPECT(status, TOMBOLO_OK);
    handle_event(audience, &event, data);
    return true;
}

/* Whether all messages of the other living members have arrived, and with a total order those of this one too. */
static bool is_complete(const struct audience *audience, uint64_t own, size_t others, uint64_t count)
{
    size_t done = 0;
    bool self = !audience->total;
    for (size_t index = 0; index < audience->sources; index++) {
        bool all = audience->last[index] == count;
        if (audience->of[index].source == own)
            self = self || all;
        else
            done += all;
    }
    return self && done >= others;
}

static void refusals(const tombolo_domain *domain, const char *name)
{
    tombolo_group *group;
    tombolo_group_options options = {.fan_out = 256};
    EXPECT(tombolo_group_join(domain, name, &options, PATIENCE_NS, &group), TOMBOLO_INVALID_ARGUMENT);
    options = (tombolo_group_options){.flags = 2};
    EXPECT(tombolo_group_join(domain, name, &options, PATIENCE_NS, &group), TOMBOLO_INVALID_ARGUMENT);
    EXPECT(tombolo_group_join(domain, "no name", NULL, PATIENCE_NS, &group), TOMBOLO_BAD_NAME);
    EXPECT(tombolo_group_join(domain, NULL, NULL, PATIENCE_NS, &group), TOMBOLO_INVALID_ARGUMENT);
    EXPECT(tombolo_group_of_job(NULL, NULL, PATIENCE_NS, &group), TOMBOLO_INVALID_ARGUMENT);
    EXPECT(tombolo_group_broadcast(NULL, "", 0, 0), TOMBOLO_INVALID_ARGUMENT);
    EXPECT(tombolo_group_leave(NULL, 0), TOMBOLO_INVALID_ARGUMENT);
    tombolo_group_drop(NULL);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return fprintf(stderr, "usage: group NAME PARTIES COUNT per-source|total\n");
    const size_t parties = strtoul(argv[2], NULL, 10);
    const uint64_t count = strtoull(argv[3], NULL, 10);
    setvbuf(stdout, NULL, _IOLBF, 0);
    static struct audience audience;
    audience.total = strcmp(argv[4], "total") == 0;
    tombolo_domain *domain;
    EXPECT(tombolo_attach(&domain), TOMBOLO_OK);
    refusals(domain, argv[1]);
    /* In a chain each member but the last is an inner one. */
    tombolo_group_options options = {.fan_out = 1, .chunk_bytes = 1024, .buffers = 1, .window_chunks = 8};
    options.flags = audience.total ? TOMBOLO_TOTAL_ORDER : 0;
    tombolo_group *group;
    EXPECT(tombolo_group_join(domain, argv[1], &options, PATIENCE_NS, &group), TOMBOLO_OK);
    const uint64_t own = tombolo_group_id(group);
    printf("member %" PRIu64 "\n", own);
    while (audience.joined < parties)
        receive_event(&audience, group, PATIENCE_NS);
    tombolo_group_peer peers[MEMBERS];
    size_t others = 0;
    EXPECT(tombolo_group_peers(group, peers, MEMBERS, &others), TOMBOLO_OK);
    if (others != parties - 1 || peers[0].domain == 0 || peers[0].node[0] == 0)
        return fprintf(stderr, "%zu others, the first on '%s'\n", others, peers[0].node);

    unsigned char bytes[LONGEST];
    static char too_long[(1 << 20) + 1];
    EXPECT(tombolo_group_broadcast(group, too_long, sizeof too_long, PATIENCE_NS), TOMBOLO_TOO_LONG);
    for (uint64_t number = 1; number <= (count == 0 ? LAST_WORDS : count); number++) {
        EXPECT(tombolo_group_broadcast(group, bytes, message(number, bytes), PATIENCE_NS), TOMBOLO_OK);
        while (receive_event(&audience, group, 0))
            ;
    }
    if (count == 0)
        raise(SIGKILL);
    while (audience.died == 0 || !is_complete(&audience, own, parties - 2, count))
        receive_event(&audience, group, PATIENCE_NS);
    EXPECT(tombolo_group_flush(group, PATIENCE_NS), TOMBOLO_OK);
    for (size_t index = 0; index < audience.sources && !audience.total; index++)
        printf("took %" PRIu64 " %" PRIu64 " %016" PRIx64 "\n", audience.of[index].source, audience.of[index].count,
               audience.of[index].hash);
    if (audience.total)
        printf("took all %" PRIu64 " %016" PRIx64 "\n", audience.all.count, audience.all.hash);
    EXPECT(tombolo_group_leave(group, PATIENCE_NS), TOMBOLO_OK);
    tombolo_detach(domain);
    return 0;
}
