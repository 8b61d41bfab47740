/* Rights in messages: copied, moved, several, none; and those that are refused. */
#include "typed.h"

/* Bytes of every region, and number of refused calls of each client. */
#define LENGTH 8192
#define REFUSED 4

/* Returns a test byte, which depends on its position. */
static uint8_t pattern(uint8_t seed, size_t at)
{
    return (uint8_t)((uint8_t)at * 31u ^ (uint8_t)(at >> 8) ^ seed);
}

static uint64_t sum_of_pattern(uint8_t seed, size_t from)
{
    uint64_t sum = 0;
    for (size_t at = from; at < LENGTH; at++) {
        sum += pattern(seed, at);
    }
    return sum;
}

/* Adds all bytes of the memory to the sum. */
static tombolo_status sum_of(const tombolo_capability *capability, uint64_t *sum)
{
    uint8_t bytes[LENGTH];
    tombolo_mapping *mapping;
    size_t length;
    tombolo_status status = tombolo_map(capability, TOMBOLO_READ, NULL, &mapping);
    if (status != TOMBOLO_OK) {
        return status;
    }
    length = tombolo_mapping_length(mapping);
    status = length > LENGTH ? TOMBOLO_OUT_OF_RANGE : tombolo_mapping_read(mapping, 0, bytes, length);
    for (size_t at = 0; status == TOMBOLO_OK && at < length; at++) {
        *sum += bytes[at];
    }
    tombolo_unmap(mapping);
    return status;
}

/* --- the server ---------------------------------------------------------------------------------------------------- */

typedef struct adder {
    const tombolo_domain *domain;
    tombolo_channel *channel;
    /* Endpoint to which the sum is sent. */
    tombolo_right endpoint;
    uint64_t sum;
    bool notify;
} adder;

/* Accepts a right, adds the bytes of its memory, and drops it unless `kept` receives it. */
static tombolo_status add_right_bytes(adder *self, tombolo_right right, tombolo_capability **kept, uint64_t *sum)
{
    tombolo_capability *capability;
    tombolo_status status = tombolo_accept_right(self->domain, self->channel, right, &capability);
    if (status != TOMBOLO_OK) {
        return status;
    }
    status = sum_of(capability, sum);
    if (kept != NULL && status == TOMBOLO_OK) {
        *kept = capability;
    } else {
        tombolo_capability_drop(capability);
    }
    return status;
}

static tombolo_status on_pass(void *context, tombolo_pending pending, const testing_rights_pass_request *request,
                              testing_rights_pass_reply *reply)
{
    adder *self = (adder *)context;
    tombolo_capability *region = NULL;
    uint64_t sum = 0;
    tombolo_status status = add_right_bytes(self, request->region, &region, &sum);
    (void)pending;
    if (status == TOMBOLO_OK && request->any.there) {
        status = add_right_bytes(self, request->any.value, NULL, &sum);
    }
    for (uint32_t part = 0; status == TOMBOLO_OK && part < request->parts.count; part++) {
        status = add_right_bytes(self, request->parts.items[part], NULL, &sum);
    }
    if (status == TOMBOLO_OK) {
        status = tombolo_copy_to(region, self->channel, TOMBOLO_READ, TOMBOLO_A_CAPABILITY, &reply->back.value);
    }
    /* The region outlives this right because a copy of it goes back. */
    tombolo_capability_drop(region);
    reply->back.there = status == TOMBOLO_OK;
    reply->sum = sum;
    self->endpoint = request->endpoint;
    self->sum = sum;
    self->notify = status == TOMBOLO_OK;
    return status;
}

void serve_rights(tombolo_domain *domain, tombolo_channel *channel)
{
    const testing_rights_handler handler = {on_pass};
    const size_t bytes = testing_rights_server_memory(channel);
    adder self = {domain, channel, {0, 0}, 0, false};
    testing_rights_server server;
    tombolo_status status =
        testing_rights_server_bind(&server, channel, allocate(bytes), bytes, &handler, &self);
    must(status == TOMBOLO_OK, "bind", status);
    while ((status = testing_rights_serve(&server, PATIENCE)) == TOMBOLO_OK) {
        if (self.notify) {
            uint8_t message[8];
            tombolo_channel *to;
            for (size_t at = 0; at < 8; at++) {
                message[at] = (uint8_t)(self.sum >> (8 * at));
            }
            status = tombolo_connect_to(domain, self.endpoint, NULL, PATIENCE, &to);
            must(status == TOMBOLO_OK, "connect to the endpoint", status);
            status = tombolo_send(to, message, sizeof message, PATIENCE);
            must(status == TOMBOLO_OK, "tell the sum", status);
            tombolo_close(to);
            self.notify = false;
        }
    }
    must(status == TOMBOLO_CLOSED, "serve", status);
    must(server.base.port.counts.refused == REFUSED, "not as many calls were refused as should be", status);
    tombolo_close(channel);
}

/* --- the client ---------------------------------------------------------------------------------------------------- */

/* Creates a region with test bytes, in a window that every node reaches or in memory of this kernel. */
static tombolo_capability *create_filled_region(const tombolo_domain *domain, const char *window, uint8_t seed)
{
    const tombolo_region_options options = {LENGTH, window, 0, window == NULL ? 0 : TOMBOLO_IN_WINDOW, 0, 0};
    uint8_t bytes[LENGTH];
    tombolo_capability *capability;
    tombolo_mapping *mapping;
    tombolo_status status = tombolo_create_region(domain, &options, &capability);
    must(status == TOMBOLO_OK, "create a region", status);
    for (size_t at = 0; at < LENGTH; at++) {
        bytes[at] = pattern(seed, at);
    }
    status = tombolo_map(capability, TOMBOLO_READ | TOMBOLO_WRITE, NULL, &mapping);
    must(status == TOMBOLO_OK, "map a region", status);
    status = tombolo_mapping_write(mapping, 0, bytes, sizeof bytes);
    must(status == TOMBOLO_OK, "write to a region", status);
    tombolo_unmap(mapping);
    return capability;
}

static tombolo_right move_right(const tombolo_capability *capability, tombolo_channel *channel)
{
    tombolo_right right;
    const tombolo_status status = tombolo_move_to(capability, channel, TOMBOLO_A_REGION, &right);
    must(status == TOMBOLO_OK, "move a region", status);
    return right;
}

static tombolo_right copy_right(const tombolo_capability *capability, tombolo_channel *channel)
{
    tombolo_right right;
    const tombolo_status status =
        tombolo_copy_to(capability, channel, TOMBOLO_READ, TOMBOLO_A_CAPABILITY, &right);
    must(status == TOMBOLO_OK, "copy a right", status);
    return right;
}

typedef struct caller {
    const tombolo_domain *domain;
    tombolo_channel *channel;
    testing_rights_client client;
    tombolo_listener *listener;
    testing_rights_pass_request request;
} caller;

/* Makes a call and checks its reply, the right that comes back, and the sum sent to the endpoint. */
static void expect_accepted(caller *self, uint64_t expected)
{
    testing_rights_pass_reply reply;
    tombolo_capability *back;
    tombolo_channel *notified;
    uint8_t message[8];
    uint64_t sum = 0;
    size_t length = 0;
    tombolo_status status = testing_rights_call_pass(&self->client, &self->request, &reply, PATIENCE);
    must(status == TOMBOLO_OK && reply.sum == expected && reply.back.there, "the sum", status);
    status = tombolo_accept_right(self->domain, self->channel, reply.back.value, &back);
    must(status == TOMBOLO_OK && tombolo_capability_rights(back) == TOMBOLO_READ, "what came back", status);
    status = sum_of(back, &sum);
    must(status == TOMBOLO_OK && sum == sum_of_pattern(2, 0), "the bytes that came back", status);
    tombolo_capability_drop(back);
    status = tombolo_accept(self->listener, PATIENCE, &notified);
    must(status == TOMBOLO_OK, "accept at the endpoint", status);
    status = tombolo_receive(notified, message, sizeof message, &length, PATIENCE);
    must(status == TOMBOLO_OK && length == 8, "what the endpoint is told", status);
    sum = 0;
    for (size_t at = 0; at < 8; at++) {
        sum |= (uint64_t)message[at] << (8 * at);
    }
    must(sum == expected, "the sum that the endpoint is told", status);
    tombolo_close(notified);
}

static void expect_refused(caller *self, tombolo_right region, const tombolo_right *any, const char *what)
{
    testing_rights_pass_reply reply;
    tombolo_status status;
    self->request.region = region;
    self->request.any.there = any != NULL;
    if (any != NULL) {
        self->request.any.value = *any;
    }
    self->request.parts.count = 0;
    status = testing_rights_call_pass(&self->client, &self->request, &reply, PATIENCE);
    must(status == TOMBOLO_RIGHT_REFUSED, what, status);
}

void call_rights(tombolo_domain *domain, tombolo_channel *channel, const char *window)
{
    const size_t bytes = testing_rights_client_memory(channel);
    const tombolo_extent half = {LENGTH / 2, LENGTH / 2};
    static const struct { bool any; uint32_t parts; } rounds[] = {{true, 4}, {false, 0}, {false, 1}};
    caller self;
    tombolo_capability *lent = create_filled_region(domain, window, 1), *part, *fresh, *last;
    tombolo_right stale = {0, 0}, returned, foreign, revoked;
    tombolo_status status;
    memset(&self, 0, sizeof self);
    self.domain = domain;
    self.channel = channel;
    status = testing_rights_client_bind(&self.client, channel, allocate(bytes), bytes);
    must(status == TOMBOLO_OK, "bind", status);
    status = tombolo_listen(domain, NULL, &self.listener, &self.request.endpoint);
    must(status == TOMBOLO_OK, "listen", status);
    status = tombolo_derive(lent, &half, TOMBOLO_READ | TOMBOLO_GRANT, &part);
    must(status == TOMBOLO_OK, "derive", status);
    for (size_t round = 0; round < sizeof rounds / sizeof *rounds; round++) {
        tombolo_capability *region = create_filled_region(domain, window, 2);
        tombolo_right parts[4];
        uint64_t expected = sum_of_pattern(2, 0);
        self.request.any.there = rounds[round].any;
        if (rounds[round].any) {
            self.request.any.value = copy_right(lent, channel);
            expected += sum_of_pattern(1, 0);
        }
        for (uint32_t index = 0; index < rounds[round].parts; index++) {
            parts[index] = copy_right(part, channel);
            expected += sum_of_pattern(1, LENGTH / 2);
        }
        self.request.parts.items = parts;
        self.request.parts.count = rounds[round].parts;
        self.request.region = stale = move_right(region, channel);
        tombolo_capability_drop(region);
        expect_accepted(&self, expected);
    }
    /* Taken up before; taken back; one that was never granted; and one that was revoked. */
    expect_refused(&self, stale, NULL, "a right that was taken up is refused");
    fresh = create_filled_region(domain, window, 3);
    returned = move_right(fresh, channel);
    tombolo_capability_drop(fresh);
    status = tombolo_take_back(domain, returned, &fresh);
    must(status == TOMBOLO_OK, "take back", status);
    expect_refused(&self, returned, NULL, "a right that was taken back is refused");
    foreign.object = tombolo_capability_id(fresh);
    foreign.mark = returned.mark;
    expect_refused(&self, foreign, NULL, "a right that was never granted is refused");
    revoked = copy_right(part, channel);
    status = tombolo_revoke(part, false, PATIENCE, NULL);
    must(status == TOMBOLO_OK, "revoke", status);
    last = create_filled_region(domain, window, 4);
    expect_refused(&self, move_right(last, channel), &revoked, "a right that was revoked is refused");
    tombolo_capability_drop(last);
    tombolo_capability_drop(fresh);
    tombolo_capability_drop(part);
    tombolo_capability_drop(lent);
    tombolo_unexport(self.listener);
    tombolo_close(channel);
}
