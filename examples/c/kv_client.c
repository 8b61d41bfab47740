/* A client of the key-value service in C: `kv_client [NAME]`. See the book's chapter on C. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv.h"

#define PATIENCE (60 * TOMBOLO_SECOND)

static void changed(void *context, const example_kv_changed *event)
{
    *(uint64_t *)context += event->version;
}

static const example_kv_events events = {changed};

static int failed(const char *what, tombolo_status status)
{
    fprintf(stderr, "%s: %s: %s\n", what, tombolo_error_name(status), tombolo_last_error());
    return 1;
}

static tombolo_status put(example_kv_client *client, const char *key, const void *value, size_t length,
                          example_kv_error *error)
{
    example_kv_put_request request;
    example_kv_put_reply reply;
    memset(&request, 0, sizeof request);
    request.key = tombolo_text_of(key);
    request.value = tombolo_bytes_of(value, length);
    request.expected.there = true; /* it is new */
    return example_kv_call_put(client, &request, &reply, error, PATIENCE);
}

int main(int count, char **arguments)
{
    static uint8_t longest[EXAMPLE_MAX_VALUE + 1];
    const tombolo_options options = example_kv_options();
    tombolo_domain *domain;
    tombolo_channel *channel;
    example_kv_client client;
    example_kv_get_request get;
    example_kv_get_reply got;
    example_kv_list_request list = {{"", 0}};
    example_kv_list_reply listed;
    example_kv_await_change_request change;
    example_kv_await_change_reply waited;
    example_kv_forget forget;
    example_kv_error error = 0;
    uint64_t versions = 0;
    size_t bytes;
    void *memory;
    tombolo_status status = tombolo_attach(&domain);
    if (status != TOMBOLO_OK) {
        return failed("attach", status);
    }
    status = tombolo_connect(domain, count > 1 ? arguments[1] : "kv", &options, PATIENCE, &channel);
    if (status != TOMBOLO_OK) {
        return failed("connect", status);
    }
    bytes = example_kv_client_memory(channel);
    memory = malloc(bytes);
    status = example_kv_client_bind(&client, channel, memory, bytes, &events, &versions);
    if (status != TOMBOLO_OK) {
        return failed("bind", status);
    }

    memset(longest, 0xa5, sizeof longest);
    status = put(&client, "isle", "sand", 4, &error);
    if (status != TOMBOLO_OK) {
        return failed("put", status);
    }
    status = put(&client, "isle", "rock", 4, &error);
    if (status != TOMBOLO_DECLINED || error != EXAMPLE_KV_ERROR_CONFLICT) {
        return failed("put, which is in conflict", status);
    }
    status = put(&client, "größte Insel: 島", longest, EXAMPLE_MAX_VALUE, &error);
    if (status != TOMBOLO_OK) {
        return failed("put of the longest value", status);
    }
    status = put(&client, "more", longest, EXAMPLE_MAX_VALUE + 1, &error);
    if (status != TOMBOLO_OVER_LIMIT) {
        return failed("put of a longer value, which the interface does not allow", status);
    }
    status = put(&client, "\xff", "", 0, &error);
    if (status != TOMBOLO_OVER_LIMIT) {
        return failed("put under a key that is not UTF-8", status);
    }

    get.key = tombolo_text_of("größte Insel: 島");
    status = example_kv_call_get(&client, &get, &got, &error, PATIENCE);
    if (status != TOMBOLO_OK || got.value.length != EXAMPLE_MAX_VALUE ||
        memcmp(got.value.data, longest, EXAMPLE_MAX_VALUE) != 0) {
        return failed("get", status);
    }
    get.key = tombolo_text_of("more");
    status = example_kv_call_get(&client, &get, &got, &error, PATIENCE);
    if (status != TOMBOLO_DECLINED || error != EXAMPLE_KV_ERROR_NOT_FOUND) {
        return failed("get of what is not there", status);
    }
    printf("declined: %s\n", example_kv_error_name(error));

    forget.key = tombolo_text_of("isle");
    status = example_kv_send_forget(&client, &forget, PATIENCE);
    if (status != TOMBOLO_OK) {
        return failed("forget", status);
    }
    status = example_kv_call_list(&client, &list, &listed, PATIENCE);
    if (status != TOMBOLO_OK || listed.keys.count != 1) {
        return failed("list", status);
    }
    printf("key: %.*s\n", (int)listed.keys.items[0].length, listed.keys.items[0].data);

    change.key = tombolo_text_of("isle");
    status = example_kv_call_await_change(&client, &change, &waited, &error, PATIENCE);
    printf("await_change: %s\n", tombolo_error_name(status));

    printf("over %s: %llu calls, versions %llu\n", tombolo_transport(channel),
           (unsigned long long)client.base.port.counts.calls, (unsigned long long)versions);
    tombolo_close(channel);
    free(memory);
    tombolo_detach(domain);
    return 0;
}
