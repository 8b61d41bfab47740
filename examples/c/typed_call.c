/* The least typed call, over `interfaces/echo.tbl`: `tombolo run --on host,arm0 typed_call.tbi` */
#include <stdio.h>
#include <stdlib.h>

#include "echo.h"

static tombolo_status null(void *context, tombolo_pending pending)
{
    (void)context, (void)pending;
    return TOMBOLO_OK;
}

static tombolo_status echo(void *context, tombolo_pending pending, const bench_echo_echo_request *request,
                           bench_echo_echo_reply *reply)
{
    (void)context, (void)pending;
    reply->data = request->data;
    return TOMBOLO_OK;
}

int main(void)
{
    const uint64_t timeout = TOMBOLO_DEFAULT_TIMEOUT;
    const tombolo_options options = bench_echo_options();
    const bench_echo_handler handler = {null, echo};
    bench_echo_echo_request request = {{(const uint8_t *)"hello", 5}};
    bench_echo_echo_reply reply;
    bench_echo_client client;
    bench_echo_server server;
    tombolo_domain *domain;
    tombolo_channel *channel;
    tombolo_listener *listener;
    tombolo_job job;
    char name[128];
    tombolo_status status;
    if (tombolo_attach(&domain) || tombolo_get_job(domain, &job) || tombolo_job_name(domain, "echo", name, sizeof name)) {
        goto failed;
    }
    if (job.rank == 0) {
        if (tombolo_export(domain, name, &options, &listener) || tombolo_accept(listener, timeout, &channel)) {
            goto failed;
        }
        size_t bytes = bench_echo_server_memory(channel);
        status = bench_echo_server_bind(&server, channel, malloc(bytes), bytes, &handler, NULL);
        while (status == TOMBOLO_OK) {
            status = bench_echo_serve(&server, timeout);
        }
    } else {
        if (tombolo_connect(domain, name, &options, timeout, &channel)) {
            goto failed;
        }
        size_t bytes = bench_echo_client_memory(channel);
        if (bench_echo_client_bind(&client, channel, malloc(bytes), bytes) ||
            bench_echo_call_echo(&client, &request, &reply, timeout)) {
            goto failed;
        }
        printf("%.*s\n", (int)reply.data.length, (const char *)reply.data.data);
    }
    return 0;
failed:
    fprintf(stderr, "%s\n", tombolo_last_error());
    return 1;
}
