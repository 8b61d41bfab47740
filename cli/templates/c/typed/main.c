/* A service and its clients: `tombolo run --on host,arm0 @name@.tbi`. `tombolo build` writes greeter.h from greeter.tbl. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "greeter.h"

#define PATIENCE (30 * TOMBOLO_SECOND)

/* Ends the program unless something went well. */
static void must(tombolo_status status, const char *what)
{
    if (status != TOMBOLO_OK) {
        fprintf(stderr, "@name@: %s: %s: %s\n", what, tombolo_error_name(status), tombolo_last_error());
        exit(1);
    }
}

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL) {
        fprintf(stderr, "@name@: no memory\n");
        exit(1);
    }
    return memory;
}

/* The state of the server. An answer may point into it: it is sent before the next request is served. */
struct service {
    const char *node;
    char greeting[129];
    uint64_t count;
};

static tombolo_status greet(void *context, tombolo_pending pending, const greeter_greeter_greet_request *request,
                            greeter_greeter_greet_reply *reply, greeter_greet_error *error)
{
    struct service *service = context;
    (void)pending;
    if (request->name.length == 0) {
        *error = GREETER_GREET_ERROR_NO_NAME;
        return TOMBOLO_DECLINED;
    }
    snprintf(service->greeting, sizeof service->greeting, "hello %.*s, from %s", (int)request->name.length,
             request->name.data, service->node);
    reply->greeting = tombolo_text_of(service->greeting);
    reply->count = ++service->count;
    return TOMBOLO_OK;
}

static const greeter_greeter_handler handler = {greet};

/* Rank 0 exports the name and serves one client after the other, each until it leaves. */
static void serve(tombolo_domain *domain, const char *name, int clients)
{
    const tombolo_options options = greeter_greeter_options();
    struct service service = {tombolo_node_name(domain), "", 0};
    tombolo_listener *listener;
    must(tombolo_export(domain, name, &options, &listener), "export the name");
    for (int client = 0; client < clients; client++) {
        greeter_greeter_server server;
        tombolo_channel *channel;
        must(tombolo_accept(listener, PATIENCE, &channel), "accept");
        const size_t bytes = greeter_greeter_server_memory(channel);
        void *memory = allocate(bytes);
        tombolo_status status = greeter_greeter_server_bind(&server, channel, memory, bytes, &handler, &service);
        while (status == TOMBOLO_OK || status == TOMBOLO_TIMED_OUT) {
            status = greeter_greeter_serve(&server, PATIENCE);
        }
        must(status == TOMBOLO_CLOSED || status == TOMBOLO_PEER_DIED ? TOMBOLO_OK : status, "serve");
        tombolo_close(channel);
        free(memory);
    }
    printf("%llu greetings from %s\n", (unsigned long long)service.count, service.node);
    tombolo_unexport(listener);
}

/* The others are greeted; an empty name is declined, which is no failure of the call. */
static void call(tombolo_domain *domain, const char *name)
{
    const tombolo_options options = greeter_greeter_options();
    greeter_greeter_client client;
    greeter_greeter_greet_request request;
    greeter_greeter_greet_reply reply;
    greeter_greet_error error = 0;
    tombolo_channel *channel;
    must(tombolo_connect(domain, name, &options, PATIENCE, &channel), "connect");
    const size_t bytes = greeter_greeter_client_memory(channel);
    void *memory = allocate(bytes);
    must(greeter_greeter_client_bind(&client, channel, memory, bytes), "bind");
    request.name = tombolo_text_of(tombolo_node_name(domain));
    must(greeter_greeter_call_greet(&client, &request, &reply, &error, PATIENCE), "greet");
    printf("%.*s\n", (int)reply.greeting.length, reply.greeting.data);
    request.name = tombolo_text_of("");
    if (greeter_greeter_call_greet(&client, &request, &reply, &error, PATIENCE) == TOMBOLO_DECLINED) {
        printf("declined: %s\n", greeter_greet_error_name(error));
    }
    tombolo_close(channel);
    free(memory);
}

int main(void)
{
    tombolo_domain *domain;
    tombolo_job job;
    char name[128];
    must(tombolo_attach(&domain), "attach");
    must(tombolo_get_job(domain, &job), "find the job");
    if (job.size < 2) {
        fprintf(stderr, "@name@: start two of me or more: tombolo run --on host,arm0 @name@.tbi\n");
        return 1;
    }
    must(tombolo_job_name(domain, "greeter", name, sizeof name), "name the service");
    if (job.rank == 0) {
        serve(domain, name, (int)job.size - 1);
    } else {
        call(domain, name);
    }
    tombolo_detach(domain);
    return 0;
}
