/* Round trips of RCCE beside those of a channel and of typed calls, between the same two processes in turn: for `tombolo bench rcce`.
 *
 *   measure SLICE_MS ROUNDS SIZE…
 *
 * Prints `figure NAME SIZE NANOSECONDS` for each slice: half of a round trip, of `exchange` a whole one, the mean over
 * the slice. Payload is written and read at both ends. The sender decides when a slice ends, and says so in the first byte.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <RCCE.h>
#include <iRCCE.h>
#include <tombolo.h>

#include "echo.h"

static const uint64_t PATIENCE_NS = UINT64_C(30000000000);

static tombolo_channel *channel;
static char *message, *answer;

static void fail(const char *what) {
    fprintf(stderr, "rank %d: %s: %s\n", RCCE_ue(), what, tombolo_last_error());
    exit(1);
}

static void rcce_send(size_t size) {
    if (RCCE_send(message, size, 1 - RCCE_ue())) fail("RCCE_send");
}

static void rcce_recv(size_t size) {
    if (RCCE_recv(answer, size, 1 - RCCE_ue())) fail("RCCE_recv");
}

static void channel_send(size_t size) {
    /* In parts, as long as a channel carries them. */
    size_t most = tombolo_max_message_bytes(channel);
    for (size_t at = 0; at < size; at += most)
        if (tombolo_send(channel, message + at, size - at < most ? size - at : most, PATIENCE_NS)) fail("tombolo_send");
}

static void channel_recv(size_t size) {
    for (size_t at = 0, length = 0; at < size; at += length)
        if (tombolo_receive(channel, answer + at, size - at, &length, PATIENCE_NS)) fail("tombolo_receive");
}

/* One-sided: a put into the other's buffer, and a flag. */
static t_vcharp room;
static RCCE_FLAG there;

static void put_send(size_t size) {
    if (RCCE_put(room, (t_vcharp)message, (int)size, 1 - RCCE_ue())) fail("RCCE_put");
    if (RCCE_flag_write(&there, RCCE_FLAG_SET, 1 - RCCE_ue())) fail("RCCE_flag_write");
}

static void put_recv(size_t size) {
    if (RCCE_wait_until(there, RCCE_FLAG_SET)) fail("RCCE_wait_until");
    if (RCCE_flag_write(&there, RCCE_FLAG_UNSET, RCCE_ue())) fail("RCCE_flag_write");
    if (RCCE_get((t_vcharp)answer, room, (int)size, RCCE_ue())) fail("RCCE_get");
}

/* Typed calls, by the stubs of an interface: rank 1 answers what rank 0 sends, so that a call is a round trip. */
static bench_echo_client client;
static bench_echo_server server;
static tombolo_channel *calls;

static tombolo_status answer_echo(void *context, tombolo_pending pending, const bench_echo_echo_request *request,
                                  bench_echo_echo_reply *reply) {
    (void)context, (void)pending;
    memcpy(answer, request->data.data, request->data.length);
    reply->data = tombolo_bytes_of(answer, request->data.length);
    return TOMBOLO_OK;
}

static const bench_echo_handler handler = {NULL, answer_echo};

static void stubs_send(size_t size) {
    if (RCCE_ue() != 0) return;
    const bench_echo_echo_request request = {tombolo_bytes_of(message, size)};
    bench_echo_echo_reply reply;
    if (bench_echo_call_echo(&client, &request, &reply, PATIENCE_NS)) fail("echo");
    memcpy(answer, reply.data.data, reply.data.length);
}

static void stubs_recv(size_t size) {
    (void)size;
    if (RCCE_ue() != 0 && bench_echo_serve(&server, PATIENCE_NS)) fail("serve");
}

static void open_calls(const tombolo_domain *domain) {
    char name[128];
    tombolo_options options = bench_echo_options();
    options.slots = 2048; /* the longest data fits */
    if (tombolo_job_name(domain, "calls", name, sizeof name)) fail("tombolo_job_name");
    if (RCCE_ue() == 0) {
        if (tombolo_connect(domain, name, &options, PATIENCE_NS, &calls)) fail("tombolo_connect");
        size_t bytes = bench_echo_client_memory(calls);
        if (bench_echo_client_bind(&client, calls, malloc(bytes), bytes)) fail("bind");
    } else {
        tombolo_listener *listener;
        if (tombolo_export(domain, name, &options, &listener)) fail("tombolo_export");
        if (tombolo_accept(listener, PATIENCE_NS, &calls)) fail("tombolo_accept");
        tombolo_unexport(listener);
        size_t bytes = bench_echo_server_memory(calls);
        if (bench_echo_server_bind(&server, calls, malloc(bytes), bytes, &handler, NULL)) fail("bind");
    }
}

typedef struct {
    const char *name;
    void (*send)(size_t), (*recv)(size_t);
    size_t least, most; /* bytes */
} Way;

/* Ping-ping: both send at the same time, and then receive. RCCE itself cannot. */
static void exchange(size_t size) {
    iRCCE_SEND_REQUEST request;
    int began = iRCCE_isend(message, (ssize_t)size, 1 - RCCE_ue(), &request);
    if (began != iRCCE_SUCCESS && began != iRCCE_PENDING && began != iRCCE_RESERVED) fail("iRCCE_isend");
    if (iRCCE_recv(answer, (ssize_t)size, 1 - RCCE_ue())) fail("iRCCE_recv");
    if (iRCCE_isend_wait(&request)) fail("iRCCE_isend_wait");
}

static void exchange_slice(size_t size, double seconds) {
    uint64_t trips = 0;
    double start = RCCE_wtime();
    for (int last = 0; !last; trips++) {
        /* Rank 0 says in its message that it is the last; rank 1 sends one for it, too. */
        int over = RCCE_ue() == 0 && RCCE_wtime() - start > seconds;
        memset(message, (int)(trips & 0x7f), size);
        message[0] = (char)over;
        exchange(size);
        last = RCCE_ue() == 0 ? over : answer[0];
    }
    double end = RCCE_wtime();
    if (RCCE_ue() == 0) printf("figure exchange %zu %.0f\n", size, (end - start) * 1e9 / (double)trips);
}

static void slice(const Way *way, size_t size, double seconds) {
    uint64_t trips = 0;
    double start = RCCE_wtime(), end = start;
    for (int last = 0; !last; trips++) {
        if (RCCE_ue() == 0) {
            last = RCCE_wtime() - start > seconds;
            memset(message, (int)(trips & 0x7f), size);
            message[0] = (char)last;
            way->send(size);
            way->recv(size);
            if (answer[size - 1] != message[size - 1]) fail("wrong bytes");
        } else {
            way->recv(size);
            last = answer[0];
            memcpy(message, answer, size);
            way->send(size);
        }
    }
    end = RCCE_wtime();
    if (RCCE_ue() == 0) printf("figure %s %zu %.0f\n", way->name, size, (end - start) * 1e9 / (double)trips / 2);
}

int RCCE_APP(int argc, char **argv) {
    RCCE_init(&argc, &argv);
    if (argc < 4 || RCCE_num_ues() != 2) {
        fprintf(stderr, "measure SLICE_MS ROUNDS SIZE..., by two ranks\n");
        return 2;
    }
    double seconds = atof(argv[1]) / 1e3;
    tombolo_domain *domain = NULL;
    if (tombolo_attach(&domain)) fail("tombolo_attach");
    if (tombolo_job_channel(domain, (uint32_t)(1 - RCCE_ue()), PATIENCE_NS, &channel)) fail("tombolo_job_channel");
    /* A board has room for as much as is measured, and not much more. */
    size_t longest = 4096;
    for (int at = 3; at < argc; at++)
        if (strtoul(argv[at], NULL, 10) > longest) longest = strtoul(argv[at], NULL, 10);
    message = calloc(1, longest), answer = calloc(1, longest), room = RCCE_malloc(4096);
    if (message == NULL || answer == NULL || room == NULL || RCCE_flag_alloc(&there)) fail("no memory");
    const Way ways[] = {{"send", rcce_send, rcce_recv, 1, 16 << 20},
                        {"put", put_send, put_recv, 64, 4096},
                        {"channel", channel_send, channel_recv, 1, 16 << 20},
                        {"stubs", stubs_send, stubs_recv, 1, BENCH_MAX_DATA}};
    open_calls(domain);
    for (int round = 0; round < atoi(argv[2]); round++) {
        for (int at = 3; at < argc; at++) {
            size_t size = strtoul(argv[at], NULL, 10);
            for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
                if (size < ways[way].least || size > ways[way].most || (way == 1 && size % 32)) continue;
                RCCE_barrier(&RCCE_COMM_WORLD);
                slice(&ways[way], size, seconds);
                fflush(stdout);
            }
            RCCE_barrier(&RCCE_COMM_WORLD);
            exchange_slice(size, seconds);
            fflush(stdout);
        }
    }
    tombolo_close(calls);
    tombolo_close(channel);
    tombolo_detach(domain);
    return RCCE_finalize();
}
