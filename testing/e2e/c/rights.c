/* An interface that passes buffers, on a channel that has no bulk channel beside it: refused when an end is bound, not at its use.
 * `rights NAME` connects to NAME. */
#include <stdio.h>
#include <stdlib.h>

#include "rights.h"

static int failed(const char *what, tombolo_status status)
{
    fprintf(stderr, "%s: %s: %s\n", what, tombolo_error_name(status), tombolo_last_error());
    return 1;
}

int main(int count, char **arguments)
{
    const tombolo_options options = testing_buffers_options();
    const testing_buffers_handler handler = {0};
    testing_buffers_client client;
    testing_buffers_server server;
    tombolo_domain *domain;
    tombolo_channel *channel;
    size_t bytes;
    void *memory;
    tombolo_status status = count < 2 ? TOMBOLO_INVALID_ARGUMENT : tombolo_attach(&domain);
    if (status != TOMBOLO_OK) {
        return failed("attach", status);
    }
    status = tombolo_connect(domain, arguments[1], &options, 60 * TOMBOLO_SECOND, &channel);
    if (status != TOMBOLO_OK) {
        return failed("connect", status);
    }
    bytes = testing_buffers_client_memory(channel) + testing_buffers_server_memory(channel);
    memory = malloc(bytes);
    status = testing_buffers_client_bind(&client, channel, memory, bytes);
    printf("client: %s: %s\n", tombolo_error_name(status), tombolo_last_error());
    status = testing_buffers_server_bind(&server, channel, memory, bytes, &handler, NULL);
    printf("server: %s: %s\n", tombolo_error_name(status), tombolo_last_error());
    tombolo_close(channel);
    free(memory);
    tombolo_detach(domain);
    return 0;
}
