/* typed serve NAME CLIENTS [PLAIN] | typed call WINDOW NAME...: the same words, channels and lines as the test program in Rust. */
#include "typed.h"

/* Timeout for the next client, which calls other servers first and may be an emulated interpreter. */
#define NEXT_CLIENT (1000 * TOMBOLO_SECOND)

enum part { EVERYTHING, NOW, BEFORE, RIGHTS, BULK, PARTS };

static const char *const part_names[PARTS] = {"everything", "now", "before", "rights", "buffers"};

static tombolo_options part_options(int part)
{
    switch (part) {
    case EVERYTHING:
        return testing_everything_options();
    case NOW:
        return testing_growth_options();
    case BEFORE:
        return before_growth_options();
    case RIGHTS:
        return testing_rights_options();
    default:
        return testing_buffers_options();
    }
}

static void format_name(char *name, size_t bytes, const char *server, int part)
{
    (void)snprintf(name, bytes, "%s-%s", server, part_names[part]);
}

static tombolo_channel *accept_channel(const tombolo_listener *listener, uint64_t timeout_ns)
{
    tombolo_channel *channel;
    const tombolo_status status = tombolo_accept(listener, timeout_ns, &channel);
    must(status == TOMBOLO_OK, "accept", status);
    return channel;
}

/* The last `plain` clients pass neither rights nor buffers. */
static void serve(tombolo_domain *domain, const char *server, int clients, int plain)
{
    tombolo_listener *listeners[PARTS];
    for (int part = 0; part < PARTS; part++) {
        const tombolo_options options = part_options(part);
        char name[128];
        tombolo_status status;
        format_name(name, sizeof name, server, part);
        status = tombolo_export(domain, name, &options, &listeners[part]);
        must(status == TOMBOLO_OK, "export", status);
    }
    printf("serving %s\n", server);
    fflush(stdout);
    for (int client = 0; client < clients; client++) {
        serve_everything(accept_channel(listeners[EVERYTHING], NEXT_CLIENT));
        for (int version = 0; version < 2; version++) {
            serve_now(accept_channel(listeners[NOW], PATIENCE));
            serve_before(accept_channel(listeners[BEFORE], PATIENCE));
        }
        if (client + plain < clients) {
            serve_rights(domain, accept_channel(listeners[RIGHTS], PATIENCE));
            serve_buffers(domain, accept_channel(listeners[BULK], PATIENCE));
        }
    }
    for (int part = 0; part < PARTS; part++) {
        tombolo_unexport(listeners[part]);
    }
    printf("served %d clients\n", clients);
}

static tombolo_channel *connect_channel(const tombolo_domain *domain, const char *server, int part)
{
    const tombolo_options options = part_options(part);
    tombolo_channel *channel;
    tombolo_status status;
    char name[128];
    format_name(name, sizeof name, server, part);
    status = tombolo_connect(domain, name, &options, PATIENCE, &channel);
    must(status == TOMBOLO_OK, "connect", status);
    return channel;
}

/* A server called `plain:NAME` gets neither rights nor buffers. */
static void call(tombolo_domain *domain, const char *window, const char *server)
{
    const bool plain = strncmp(server, "plain:", 6) == 0;
    if (plain) {
        server += 6;
    }
    call_everything(connect_channel(domain, server, EVERYTHING));
    call_as_now(connect_channel(domain, server, NOW), true);
    call_as_now(connect_channel(domain, server, BEFORE), false);
    call_as_before(connect_channel(domain, server, NOW), true);
    call_as_before(connect_channel(domain, server, BEFORE), false);
    if (!plain) {
        call_rights(domain, connect_channel(domain, server, RIGHTS), window);
        call_buffers(domain, connect_channel(domain, server, BULK), window);
    }
    printf("understood %s\n", server);
}

int main(int count, char **words)
{
    tombolo_domain *domain;
    const tombolo_status status = tombolo_attach(&domain);
    must(status == TOMBOLO_OK, "attach", status);
    if ((count == 4 || count == 5) && strcmp(words[1], "serve") == 0) {
        serve(domain, words[2], atoi(words[3]), count == 5 ? atoi(words[4]) : 0);
    } else if (count > 3 && strcmp(words[1], "call") == 0) {
        for (int word = 3; word < count; word++) {
            call(domain, strcmp(words[2], "-") == 0 ? NULL : words[2], words[word]);
        }
    } else {
        fprintf(stderr, "usage: typed serve NAME CLIENTS [PLAIN] | typed call WINDOW NAME...\n");
        return 2;
    }
    tombolo_detach(domain);
    return 0;
}
