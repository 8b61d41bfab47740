/* A key-value service in C: `kv_server [NAME]` serves one client after the other until it has had as many as its second
 * argument says. See the book's chapter on C. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv.h"

#define ENTRIES 64

struct entry {
    char key[EXAMPLE_MAX_KEY];
    uint32_t key_length; /* 0: not used */
    uint8_t value[EXAMPLE_MAX_VALUE];
    uint32_t value_length;
    uint64_t version;
};

struct store {
    example_kv_server server;
    struct entry entries[ENTRIES];
    tombolo_text keys[ENTRIES];
};

static struct entry *find(struct store *store, tombolo_text key)
{
    for (int index = 0; index < ENTRIES; index++) {
        struct entry *entry = &store->entries[index];
        if (entry->key_length == key.length && memcmp(entry->key, key.data, key.length) == 0) {
            return entry;
        }
    }
    return NULL;
}

static tombolo_status get(void *context, tombolo_pending pending, const example_kv_get_request *request,
                          example_kv_get_reply *reply, example_kv_error *error)
{
    const struct entry *entry = request->key.length == 0 ? NULL : find(context, request->key);
    (void)pending;
    if (entry == NULL) {
        *error = EXAMPLE_KV_ERROR_NOT_FOUND;
        return TOMBOLO_DECLINED;
    }
    reply->value = tombolo_bytes_of(entry->value, entry->value_length);
    reply->version = entry->version;
    return TOMBOLO_OK;
}

static tombolo_status put(void *context, tombolo_pending pending, const example_kv_put_request *request,
                          example_kv_put_reply *reply, example_kv_error *error)
{
    struct store *store = context;
    const tombolo_text unused = {"", 0};
    struct entry *entry = request->key.length == 0 ? NULL : find(store, request->key);
    const uint64_t version = entry == NULL ? 0 : entry->version;
    example_kv_changed changed;
    (void)pending;
    if (request->expected.there && request->expected.value != version) {
        *error = EXAMPLE_KV_ERROR_CONFLICT;
        return TOMBOLO_DECLINED;
    }
    entry = entry == NULL && request->key.length != 0 ? find(store, unused) : entry;
    if (entry == NULL) {
        *error = EXAMPLE_KV_ERROR_FULL;
        return TOMBOLO_DECLINED;
    }
    /* The compiler's limits are the interface's: what is longer never gets here. */
    memcpy(entry->key, request->key.data, request->key.length);
    entry->key_length = request->key.length;
    if (request->value.length != 0) {
        memcpy(entry->value, request->value.data, request->value.length);
    }
    entry->value_length = request->value.length;
    reply->version = ++entry->version;
    changed.key = request->key;
    changed.version = entry->version;
    /* A client without room for news has to do without. */
    (void)example_kv_send_changed(&store->server, &changed, 0);
    return TOMBOLO_OK;
}

static tombolo_status list(void *context, tombolo_pending pending, const example_kv_list_request *request,
                           example_kv_list_reply *reply)
{
    struct store *store = context;
    (void)pending;
    reply->keys.items = store->keys;
    for (int index = 0; index < ENTRIES; index++) {
        const struct entry *entry = &store->entries[index];
        const tombolo_text prefix = request->prefix;
        if (entry->key_length != 0 && entry->key_length >= prefix.length &&
            memcmp(entry->key, prefix.data, prefix.length) == 0) {
            store->keys[reply->keys.count].data = entry->key;
            store->keys[reply->keys.count].length = entry->key_length;
            reply->keys.count++;
        }
    }
    return TOMBOLO_OK;
}

static void forget(void *context, const example_kv_forget *message)
{
    struct entry *entry = message->key.length == 0 ? NULL : find(context, message->key);
    if (entry != NULL) {
        memset(entry, 0, sizeof *entry);
    }
}

/* `await_change` is not served, so it is null: clients are told TOMBOLO_UNSERVED. */
static const example_kv_handler handler = {get, put, list, NULL, forget};

static int failed(const char *what, tombolo_status status)
{
    fprintf(stderr, "%s: %s: %s\n", what, tombolo_error_name(status), tombolo_last_error());
    return 1;
}

int main(int count, char **arguments)
{
    static struct store store;
    const char *name = count > 1 ? arguments[1] : "kv";
    const int clients = count > 2 ? atoi(arguments[2]) : 1;
    const tombolo_options options = example_kv_options();
    tombolo_domain *domain;
    tombolo_listener *listener;
    tombolo_status status = tombolo_attach(&domain);
    if (status != TOMBOLO_OK) {
        return failed("attach", status);
    }
    status = tombolo_export(domain, name, &options, &listener);
    if (status != TOMBOLO_OK) {
        return failed("export", status);
    }
    printf("serving %s on %s\n", name, tombolo_node_name(domain));
    fflush(stdout);
    for (int client = 0; client < clients; client++) {
        const tombolo_counts *counts = &store.server.base.port.counts;
        tombolo_channel *channel;
        size_t bytes;
        void *memory;
        status = tombolo_accept(listener, 120 * TOMBOLO_SECOND, &channel);
        if (status != TOMBOLO_OK) {
            return failed("accept", status);
        }
        bytes = example_kv_server_memory(channel);
        memory = malloc(bytes);
        status = example_kv_server_bind(&store.server, channel, memory, bytes, &handler, &store);
        while (status == TOMBOLO_OK || status == TOMBOLO_TIMED_OUT) {
            status = example_kv_serve(&store.server, 60 * TOMBOLO_SECOND);
        }
        printf("client left with %s after %llu calls, %llu messages, %llu unknown, %llu malformed\n",
               tombolo_error_name(status), (unsigned long long)counts->calls, (unsigned long long)counts->messages,
               (unsigned long long)counts->unknown, (unsigned long long)counts->malformed);
        tombolo_close(channel);
        free(memory);
    }
    tombolo_unexport(listener);
    tombolo_detach(domain);
    return 0;
}
