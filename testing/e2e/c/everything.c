/* Every type of the language, sent and returned. */
#include "typed.h"

/* Names of the shape of event drawn, and of the answer to a shape with names. */
static const tombolo_text names[3] = {{"\xc3\xa4", 2}, {"", 0}, {"\xf0\x9d\x84\x9e\xf0\x9d\x84\x9e", 8}};

static const char because[] = "größte Insel: 島";

/* --- hash of values (FNV-1a) ------------------------------------------------- */

typedef struct digest {
    uint64_t value;
} digest;

static digest new_digest(void)
{
    const digest d = {UINT64_C(0xcbf29ce484222325)};
    return d;
}

static void add_bytes(digest *d, const void *data, size_t length)
{
    for (size_t at = 0; at < length; at++) {
        d->value = (d->value ^ ((const uint8_t *)data)[at]) * UINT64_C(0x100000001b3);
    }
}

static void add(digest *d, uint64_t word)
{
    uint8_t bytes[8];
    tombolo_store_le(bytes, word, sizeof bytes);
    add_bytes(d, bytes, sizeof bytes);
}

static void add_text(digest *d, tombolo_text text)
{
    add(d, text.length);
    add_bytes(d, text.data, text.length);
}

static uint64_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t long_bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void add_point(digest *d, const testing_point *point)
{
    add(d, bits_of(point->x));
    add(d, bits_of(point->y));
    add(d, point->tag);
}

static void add_entry(digest *d, const testing_entry *entry)
{
    add_text(d, entry->name);
    add(d, entry->points.count);
    for (uint32_t i = 0; i < entry->points.count; i++) {
        add_point(d, &entry->points.items[i]);
    }
    add(d, entry->colour.there);
    if (entry->colour.there) {
        add(d, entry->colour.value);
    }
}

static void add_shape(digest *d, const testing_shape *shape)
{
    add(d, shape->which);
    switch (shape->which) {
    case TESTING_SHAPE_NUMBER:
        add(d, shape->as.number);
        break;
    case TESTING_SHAPE_POINT:
        add_point(d, &shape->as.point);
        break;
    case TESTING_SHAPE_ENTRY:
        add_entry(d, &shape->as.entry);
        break;
    case TESTING_SHAPE_NAMES:
        add(d, shape->as.names.count);
        for (uint32_t i = 0; i < shape->as.names.count; i++) {
            add_text(d, shape->as.names.items[i]);
        }
        break;
    default:
        break;
    }
}

static void add_maybes(digest *d, const testing_everything_parts_request *parts)
{
    add(d, parts->maybe.there);
    if (parts->maybe.there) {
        add(d, parts->maybe.value);
    }
    add(d, parts->maybe_text.there);
    if (parts->maybe_text.there) {
        add_text(d, parts->maybe_text.value);
    }
    add(d, parts->maybe_point.there);
    if (parts->maybe_point.there) {
        add_point(d, &parts->maybe_point.value);
    }
    add(d, parts->maybe_entry.there);
    if (parts->maybe_entry.there) {
        add_entry(d, &parts->maybe_entry.value);
    }
}

static uint64_t digest_of_parts(const testing_everything_parts_request *parts)
{
    digest d = new_digest();
    add_text(&d, parts->text);
    add(&d, parts->blob.length);
    add_bytes(&d, parts->blob.data, parts->blob.length);
    add(&d, parts->numbers.count);
    for (uint32_t i = 0; i < parts->numbers.count; i++) {
        add(&d, parts->numbers.items[i]);
    }
    for (int i = 0; i < 3; i++) {
        add(&d, (uint64_t)(int64_t)parts->fixed[i]);
    }
    add(&d, parts->flags.count);
    for (uint32_t i = 0; i < parts->flags.count; i++) {
        add(&d, parts->flags.items[i]);
    }
    add_entry(&d, &parts->entry);
    add(&d, parts->entries.count);
    for (uint32_t i = 0; i < parts->entries.count; i++) {
        add_entry(&d, &parts->entries.items[i]);
    }
    add_shape(&d, &parts->shape);
    add(&d, parts->shapes.count);
    for (uint32_t i = 0; i < parts->shapes.count; i++) {
        add_shape(&d, &parts->shapes.items[i]);
    }
    add_maybes(&d, parts);
    for (int row = 0; row < 3; row++) {
        add(&d, parts->matrix[row][0]);
        add(&d, parts->matrix[row][1]);
    }
    add(&d, parts->nested.count);
    for (uint32_t i = 0; i < parts->nested.count; i++) {
        const tombolo_list_u32 *inner = &parts->nested.items[i];
        add(&d, inner->count);
        for (uint32_t j = 0; j < inner->count; j++) {
            add(&d, inner->items[j]);
        }
    }
    return d.value;
}

static uint64_t digest_of_entry(const testing_entry *entry)
{
    digest d = new_digest();
    add_entry(&d, entry);
    return d.value;
}

static uint64_t digest_of_shape(const testing_shape *shape)
{
    digest d = new_digest();
    add_shape(&d, shape);
    return d.value;
}

/* --- server -------------------------------------------------------------------------------------------------------- */

static testing_shape names_shape(void)
{
    testing_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.which = TESTING_SHAPE_NAMES;
    shape.as.names.items = names;
    shape.as.names.count = 3;
    return shape;
}

static tombolo_status numbers(void *context, tombolo_pending pending, const testing_everything_numbers_request *request,
                              testing_everything_numbers_reply *reply)
{
    (void)context;
    (void)pending;
    reply->a = request->a;
    reply->b = request->b;
    reply->c = request->c;
    reply->d = request->d;
    reply->e = request->e;
    reply->f = request->f;
    reply->g = request->g;
    reply->h = request->h;
    reply->i = request->i;
    reply->j = request->j;
    reply->k = request->k;
    reply->colour = request->colour;
    reply->step = request->step;
    reply->rights = request->rights;
    reply->hints = request->hints;
    reply->domain = request->domain;
    return TOMBOLO_OK;
}

static tombolo_status parts(void *context, tombolo_pending pending, const testing_everything_parts_request *request,
                            testing_everything_parts_reply *reply, testing_failure *error)
{
    (void)context;
    (void)pending;
    if (tombolo_text_is(request->text, "refused")) {
        error->which = TESTING_FAILURE_REFUSED;
        return TOMBOLO_DECLINED;
    }
    if (tombolo_text_is(request->text, "retry")) {
        error->which = TESTING_FAILURE_RETRY;
        error->as.retry = UINT32_MAX;
        return TOMBOLO_DECLINED;
    }
    if (tombolo_text_is(request->text, "because")) {
        error->which = TESTING_FAILURE_BECAUSE;
        error->as.because = tombolo_text_of(because);
        return TOMBOLO_DECLINED;
    }
    reply->entry = request->entry;
    reply->shape.which = TESTING_SHAPE_NUMBER;
    reply->shape.as.number = digest_of_parts(request);
    reply->maybe_shape.there = request->shape.which != TESTING_SHAPE_NOTHING;
    reply->maybe_shape.value = request->shape.which == TESTING_SHAPE_NAMES ? names_shape() : request->shape;
    return TOMBOLO_OK;
}

static tombolo_status null(void *context, tombolo_pending pending)
{
    (void)context;
    (void)pending;
    return TOMBOLO_OK;
}

static void poke(void *context)
{
    testing_everything_drawn drawn;
    tombolo_status status;
    drawn.shape = names_shape();
    status = testing_everything_send_drawn((testing_everything_server *)context, &drawn, PATIENCE);
    must(status == TOMBOLO_OK, "an event", status);
}

static const testing_everything_handler handler = {numbers, parts, null, poke};

void serve_everything(tombolo_channel *channel)
{
    testing_everything_server server;
    const size_t bytes = testing_everything_server_memory(channel);
    void *memory = allocate(bytes);
    tombolo_status status = testing_everything_server_bind(&server, channel, memory, bytes, &handler, &server);
    while (status == TOMBOLO_OK) {
        status = testing_everything_serve(&server, PATIENCE);
    }
    must(status == TOMBOLO_CLOSED, "serving everything", status);
    must(server.base.port.counts.malformed == 0 && server.base.port.counts.unknown == 0, "messages were refused", status);
    tombolo_close(channel);
    free(memory);
}

/* --- client -------------------------------------------------------------------------------------------------------- */

static void drawn(void *context, const testing_everything_drawn *event)
{
    *(uint64_t *)context = digest_of_shape(&event->shape);
}

static const testing_everything_events events = {drawn};

static void call_numbers(testing_everything_client *client)
{
    static const testing_everything_numbers_request all[] = {
        {true, UINT8_MAX, UINT16_MAX, UINT32_MAX, UINT64_MAX, INT8_MAX, INT16_MAX, INT32_MAX, INT64_MAX, 3.4028234e38f, 1e308 * 10,
         TESTING_COLOUR_GREEN, INT16_MAX, TESTING_RIGHTS_READ | TESTING_RIGHTS_WRITE | TESTING_RIGHTS_GRANT, UINT64_MAX, UINT64_MAX},
        {false, 1, 0x0102, 0x01020304, UINT64_C(0x0102030405060708), INT8_MIN, INT16_MIN, INT32_MIN, INT64_MIN, -0.0f, 2.2250738585072014e-308,
         TESTING_COLOUR_RED, TESTING_STEP_BACK, TESTING_RIGHTS_WRITE, TESTING_HINTS_FAR, 1},
        {false, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, TESTING_COLOUR_NONE, TESTING_STEP_STAY, 0, 0, 0},
    };
    for (size_t index = 0; index < sizeof all / sizeof *all; index++) {
        const testing_everything_numbers_request *sent = &all[index];
        testing_everything_numbers_reply got;
        const tombolo_status status = testing_everything_call_numbers(client, sent, &got, PATIENCE);
        must(status == TOMBOLO_OK, "numbers", status);
        must(got.a == sent->a && got.b == sent->b && got.c == sent->c && got.d == sent->d && got.e == sent->e &&
                 got.f == sent->f && got.g == sent->g && got.h == sent->h && got.i == sent->i &&
                 bits_of(got.j) == bits_of(sent->j) && long_bits_of(got.k) == long_bits_of(sent->k) &&
                 got.colour == sent->colour && got.step == sent->step && got.rights == sent->rights &&
                 got.hints == sent->hints && got.domain == sent->domain,
             "numbers that are others", status);
    }
}

static void call_parts(testing_everything_client *client, const testing_everything_parts_request *request)
{
    testing_everything_parts_reply reply;
    testing_failure error;
    const tombolo_status status = testing_everything_call_parts(client, request, &reply, &error, PATIENCE);
    const testing_shape named = names_shape();
    must(status == TOMBOLO_OK, "parts", status);
    must(reply.shape.which == TESTING_SHAPE_NUMBER && reply.shape.as.number == digest_of_parts(request), "parts as they arrived", status);
    must(digest_of_entry(&reply.entry) == digest_of_entry(&request->entry), "an entry that came back", status);
    must(reply.maybe_shape.there == (request->shape.which != TESTING_SHAPE_NOTHING), "an optional shape", status);
    if (reply.maybe_shape.there) {
        const testing_shape *expected = request->shape.which == TESTING_SHAPE_NAMES ? &named : &request->shape;
        must(digest_of_shape(&reply.maybe_shape.value) == digest_of_shape(expected), "a shape that came back", status);
    }
}

static testing_everything_parts_request empty_parts(void)
{
    testing_everything_parts_request parts_;
    memset(&parts_, 0, sizeof parts_);
    parts_.shape.which = TESTING_SHAPE_NOTHING;
    return parts_;
}

/* Everything as long as it may be, with each shape. */
static void call_full(testing_everything_client *client)
{
    static const testing_point points[4] = {{1.5f, -2.0f, 7}, {-3.4028234e38f, 3.4028234e38f, 255}, {0, 0, 0}, {1, 1, 1}};
    static const uint16_t numbers_[8] = {0, 1, UINT16_MAX, 0x0102, 5, 6, 7, 8};
    static const bool flags[9] = {true, false, true, true, false, true, false, false, true};
    static const uint32_t inner[2] = {1, UINT32_MAX}, other[1] = {0x01020304};
    static const tombolo_list_u32 nested[3] = {{inner, 2}, {NULL, 0}, {other, 1}};
    static uint8_t blob[32];
    testing_everything_parts_request full = empty_parts();
    testing_entry entries[3];
    testing_shape shapes[3];
    memset(blob, 0xff, sizeof blob);
    memset(entries, 0, sizeof entries);
    memset(shapes, 0, sizeof shapes);
    entries[0].name = tombolo_text_of("島島島島島x");
    entries[0].points.items = points;
    entries[0].points.count = 4;
    entries[0].colour.there = true;
    entries[0].colour.value = TESTING_COLOUR_GREEN;
    entries[2] = entries[0];
    shapes[0].which = TESTING_SHAPE_NUMBER;
    shapes[0].as.number = UINT64_MAX;
    shapes[1] = names_shape();
    shapes[2].which = TESTING_SHAPE_POINT;
    shapes[2].as.point = points[1];
    full.text = tombolo_text_of("🏝🏝🏝🏝🏝🏝🏝🏝");
    full.blob = tombolo_bytes_of(blob, sizeof blob);
    full.numbers.items = numbers_;
    full.numbers.count = 8;
    full.fixed[0] = INT32_MIN;
    full.fixed[1] = -1;
    full.fixed[2] = INT32_MAX;
    full.flags.items = flags;
    full.flags.count = 9;
    full.entry = entries[0];
    full.entries.items = entries;
    full.entries.count = 3;
    full.shape.which = TESTING_SHAPE_ENTRY;
    full.shape.as.entry = entries[0];
    full.shapes.items = shapes;
    full.shapes.count = 3;
    full.maybe.there = full.maybe_text.there = full.maybe_point.there = full.maybe_entry.there = true;
    full.maybe.value = UINT64_MAX;
    full.maybe_text.value = tombolo_text_of("12345678");
    full.maybe_point.value = points[1];
    for (int row = 0; row < 3; row++) {
        full.matrix[row][0] = (uint8_t)(2 * row);
        full.matrix[row][1] = (uint8_t)(255 - row);
    }
    full.nested.items = nested;
    full.nested.count = 3;
    call_parts(client, &full);
    for (int shape = 0; shape < 3; shape++) {
        full.shape = shapes[shape];
        call_parts(client, &full);
    }
}

/* Values at a limit arrive; values over one are not sent. */
static void call_limits(testing_everything_client *client)
{
    static const char x[33] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    static const uint16_t numbers_[9] = {0};
    testing_everything_parts_reply reply;
    testing_failure error;
    for (uint32_t over = 0; over < 3; over++) {
        testing_everything_parts_request text = empty_parts(), list = empty_parts();
        tombolo_status status;
        text.text.data = x;
        text.text.length = 31 + over;
        list.numbers.items = numbers_;
        list.numbers.count = 7 + over;
        if (over < 2) {
            call_parts(client, &text);
            call_parts(client, &list);
            continue;
        }
        status = testing_everything_call_parts(client, &text, &reply, &error, PATIENCE);
        must(status == TOMBOLO_OVER_LIMIT, "text over its limit", status);
        status = testing_everything_call_parts(client, &list, &reply, &error, PATIENCE);
        must(status == TOMBOLO_OVER_LIMIT, "a list over its limit", status);
    }
}

static void call_declined(testing_everything_client *client)
{
    static const char *const texts[] = {"refused", "retry", "because"};
    for (uint32_t which = 0; which < 3; which++) {
        testing_everything_parts_request request = empty_parts();
        testing_everything_parts_reply reply;
        testing_failure error;
        tombolo_status status;
        request.text = tombolo_text_of(texts[which]);
        status = testing_everything_call_parts(client, &request, &reply, &error, PATIENCE);
        must(status == TOMBOLO_DECLINED && error.which == which + 1, texts[which], status);
        must(which != 1 || error.as.retry == UINT32_MAX, texts[which], status);
        must(which != 2 || tombolo_text_is(error.as.because, because), texts[which], status);
    }
}

void call_everything(tombolo_channel *channel)
{
    testing_everything_client client;
    const size_t bytes = testing_everything_client_memory(channel);
    void *memory = allocate(bytes);
    const testing_shape named = names_shape();
    const testing_everything_parts_request empty = empty_parts();
    uint64_t drawn_digest = 0;
    tombolo_status status = testing_everything_client_bind(&client, channel, memory, bytes, &events, &drawn_digest);
    must(status == TOMBOLO_OK, "bind", status);
    call_numbers(&client);
    status = testing_everything_call_null(&client, PATIENCE);
    must(status == TOMBOLO_OK, "null", status);
    call_parts(&client, &empty);
    call_full(&client);
    call_limits(&client);
    call_declined(&client);
    status = testing_everything_send_poke(&client, PATIENCE);
    must(status == TOMBOLO_OK, "poke", status);
    status = testing_everything_client_poll(&client, PATIENCE);
    must(status == TOMBOLO_OK && drawn_digest == digest_of_shape(&named), "what was drawn", status);
    must(client.base.port.counts.malformed == 0, "messages were refused", status);
    tombolo_close(channel);
    free(memory);
}
