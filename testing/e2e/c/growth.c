/* Two versions of an interface in one program, each a client and a server of both. */
#include "typed.h"

static const testing_stamp stamp = {UINT64_C(0x0102030405060708), 0x0102};
static const tombolo_text tags[4] = {{"a", 1}, {"\xc3\xbc", 2}, {"x", 1}, {"", 0}};

/* --- servers ------------------------------------------------------------------------------------------------------- */

static tombolo_status look(void *context, tombolo_pending pending, const testing_growth_look_request *request,
                           testing_growth_look_reply *reply)
{
    (void)context;
    (void)pending;
    reply->note = request->note;
    reply->note.tags.items = tags;
    reply->note.tags.count = 2;
    /* A client of the old interface asks without detail, which it does not know. */
    if (request->detail) {
        reply->thing.which = TESTING_THING_NUMBER;
        reply->thing.as.number = 4;
    } else {
        reply->thing.which = TESTING_THING_NAME;
        reply->thing.as.name = tombolo_text_of("name");
    }
    reply->stamp = stamp;
    reply->count.there = true;
    reply->count.value = request->note.tags.count;
    return TOMBOLO_OK;
}

static tombolo_status number(void *context, tombolo_pending pending, testing_growth_number_reply *reply)
{
    (void)context;
    (void)pending;
    reply->id = 5;
    return TOMBOLO_OK;
}

static void forget(void *context, const testing_growth_forget *message)
{
    testing_growth_server *server = (testing_growth_server *)context;
    const testing_growth_seen seen = {8, tombolo_text_of("somebody")};
    tombolo_status status;
    must(message->id == 3 && (message->why.length == 0 || tombolo_text_is(message->why, "old")), "forget", TOMBOLO_OK);
    status = testing_growth_send_news(server, PATIENCE);
    must(status == TOMBOLO_OK, "news", status);
    status = testing_growth_send_seen(server, &seen, PATIENCE);
    must(status == TOMBOLO_OK, "seen", status);
}

static void poke(void *context)
{
    (void)context;
}

static const testing_growth_handler now_handler = {look, forget, number, poke};

void serve_now(tombolo_channel *channel)
{
    testing_growth_server server;
    const size_t bytes = testing_growth_server_memory(channel);
    void *memory = allocate(bytes);
    tombolo_status status = testing_growth_server_bind(&server, channel, memory, bytes, &now_handler, &server);
    while (status == TOMBOLO_OK) {
        status = testing_growth_serve(&server, PATIENCE);
    }
    must(status == TOMBOLO_CLOSED && server.base.port.counts.malformed == 0, "serving as now", status);
    tombolo_close(channel);
    free(memory);
}

static tombolo_status look_before(void *context, tombolo_pending pending, const before_growth_look_request *request,
                                  before_growth_look_reply *reply)
{
    (void)context;
    (void)pending;
    reply->note = request->note;
    reply->thing.which = BEFORE_THING_NUMBER;
    reply->thing.as.number = 4;
    reply->stamp = stamp;
    return TOMBOLO_OK;
}

static void forget_before(void *context, const before_growth_forget *message)
{
    const before_growth_seen seen = {8};
    tombolo_status status;
    must(message->id == 3, "forget", TOMBOLO_OK);
    status = before_growth_send_seen((before_growth_server *)context, &seen, PATIENCE);
    must(status == TOMBOLO_OK, "seen", status);
}

static const before_growth_handler before_handler = {look_before, forget_before};

void serve_before(tombolo_channel *channel)
{
    before_growth_server server;
    const size_t bytes = before_growth_server_memory(channel);
    void *memory = allocate(bytes);
    tombolo_status status = before_growth_server_bind(&server, channel, memory, bytes, &before_handler, &server);
    while (status == TOMBOLO_OK) {
        status = before_growth_serve(&server, PATIENCE);
    }
    must(status == TOMBOLO_CLOSED && server.base.port.counts.malformed == 0, "serving as before", status);
    tombolo_close(channel);
    free(memory);
}

/* --- clients ------------------------------------------------------------------------------------------------------- */

struct seen_event {
    uint32_t id;
    bool by_somebody;
};

static void seen(void *context, const testing_growth_seen *event)
{
    struct seen_event *received = (struct seen_event *)context;
    received->id = event->id;
    received->by_somebody = tombolo_text_is(event->by, "somebody");
}

static void news(void *context)
{
    (void)context;
}

static const testing_growth_events now_events = {seen, news};

static void look_as_now(testing_growth_client *client, bool now)
{
    testing_growth_look_request request;
    testing_growth_look_reply reply;
    tombolo_status status;
    memset(&request, 0, sizeof request);
    request.note.text = tombolo_text_of("größte Insel: 島");
    request.note.mood = 77;
    request.note.tags.items = tags;
    request.note.tags.count = 4;
    request.note.due.there = true;
    request.note.due.value = 1;
    request.detail = true;
    status = testing_growth_call_look(client, &request, &reply, PATIENCE);
    must(status == TOMBOLO_OK, "look, now", status);
    must(tombolo_text_is(reply.note.text, "größte Insel: 島") && reply.thing.which == TESTING_THING_NUMBER &&
             reply.thing.as.number == 4 && reply.stamp.at_ns == stamp.at_ns && reply.stamp.node == stamp.node,
         "what both know", status);
    /* Fields that an older server does not send are zero or absent. */
    must(reply.note.mood == (now ? 77 : 0) && reply.note.tags.count == (now ? 2U : 0U) && reply.note.due.there == now &&
             reply.count.there == now && (!now || (reply.count.value == 4 && reply.note.due.value == 1)),
         "what is new", status);
}

void call_as_now(tombolo_channel *channel, bool now)
{
    testing_growth_client client;
    const size_t bytes = testing_growth_client_memory(channel);
    void *memory = allocate(bytes);
    const testing_growth_forget message = {3, tombolo_text_of("old")};
    testing_growth_number_reply reply;
    struct seen_event received = {0, false};
    tombolo_status status = testing_growth_client_bind(&client, channel, memory, bytes, &now_events, &received);
    must(status == TOMBOLO_OK, "bind", status);
    look_as_now(&client, now);
    status = testing_growth_call_number(&client, &reply, PATIENCE);
    must(now ? status == TOMBOLO_OK && reply.id == 5 : status == TOMBOLO_UNKNOWN_CALL, "number", status);
    status = testing_growth_send_poke(&client, PATIENCE);
    must(status == TOMBOLO_OK, "poke", status);
    status = testing_growth_send_forget(&client, &message, PATIENCE);
    must(status == TOMBOLO_OK, "forget", status);
    while (status == TOMBOLO_OK && received.id == 0) {
        status = testing_growth_client_poll(&client, PATIENCE);
    }
    must(received.id == 8 && received.by_somebody == now && client.base.port.counts.malformed == 0, "seen", status);
    tombolo_close(channel);
    free(memory);
}

static void seen_before(void *context, const before_growth_seen *event)
{
    *(uint32_t *)context = event->id;
}

static const before_growth_events before_events = {seen_before};

void call_as_before(tombolo_channel *channel, bool now)
{
    before_growth_client client;
    const size_t bytes = before_growth_client_memory(channel);
    void *memory = allocate(bytes);
    const before_growth_look_request request = {{tombolo_text_of("hello")}};
    const before_growth_forget message = {3};
    before_growth_look_reply reply;
    uint32_t seen_id = 0;
    tombolo_status status = before_growth_client_bind(&client, channel, memory, bytes, &before_events, &seen_id);
    must(status == TOMBOLO_OK, "bind", status);
    status = before_growth_call_look(&client, &request, &reply, PATIENCE);
    must(status == TOMBOLO_OK, "look, before", status);
    must(tombolo_text_is(reply.note.text, "hello") && reply.stamp.node == stamp.node, "what both know", status);
    must(now ? reply.thing.which == 2 : reply.thing.which == BEFORE_THING_NUMBER && reply.thing.as.number == 4, "a thing", status);
    status = before_growth_send_forget(&client, &message, PATIENCE);
    must(status == TOMBOLO_OK, "forget", status);
    while (status == TOMBOLO_OK && seen_id == 0) {
        status = before_growth_client_poll(&client, PATIENCE);
    }
    /* It does not know the event. */
    must(seen_id == 8 && client.base.port.counts.unknown == (now ? 1U : 0U), "seen", status);
    tombolo_close(channel);
    free(memory);
}
