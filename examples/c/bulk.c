/* Buffers from one program to another, and memory that both map: without a copy.
 *
 *     bulk receive NAME          takes what comes, writes to it, and gives it back
 *     bulk send NAME [NODE]      sends a few buffers; to a program on NODE, if that is a virtual machine
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tombolo.h"

#define BUFFER_BYTES 65536
#define PATIENCE (60 * TOMBOLO_SECOND)

/* Ends the program unless something went well. */
static void must(tombolo_status status, const char *what)
{
    if (status != TOMBOLO_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, tombolo_error_name(status), tombolo_last_error());
        exit(1);
    }
}

static tombolo_arrival next(tombolo_bulk *bulk, uint32_t kind)
{
    tombolo_arrival arrival;
    must(tombolo_bulk_receive(bulk, PATIENCE, &arrival), "receive");
    if (arrival.kind != kind) {
        fprintf(stderr, "something of kind %" PRIu32 " came instead of %" PRIu32 "\n", arrival.kind, kind);
        exit(1);
    }
    return arrival;
}

static void receive(tombolo_domain *domain, const char *name)
{
    tombolo_listener *listener;
    tombolo_bulk *bulk;
    must(tombolo_export_bulk(domain, name, NULL, &listener), "export the name");
    printf("waiting as %s on %s\n", name, tombolo_node_name(domain));
    fflush(stdout);
    must(tombolo_accept_bulk(listener, PATIENCE, &bulk), "accept");

    tombolo_arrival arrival = next(bulk, TOMBOLO_POOL_TAKEN);
    printf("a pool of %" PRIu32 " buffers of %" PRIu64 " bytes\n", tombolo_pool_count(arrival.pool),
           tombolo_pool_buffer_bytes(arrival.pool));
    tombolo_pool_drop(arrival.pool);

    /* A buffer that is moved here may be changed where it lies. */
    arrival = next(bulk, TOMBOLO_MOVED);
    char *text = tombolo_buffer_memory(arrival.buffer);
    printf("moved: %s (%.*s)\n", text, (int)arrival.metadata_length, (const char *)arrival.metadata);
    for (char *letter = text; *letter != 0; letter++) {
        if (*letter >= 'a' && *letter <= 'z') {
            *letter = (char)(*letter - 'a' + 'A');
        }
    }
    must(tombolo_bulk_move(bulk, &arrival.buffer, 1, NULL, 0, PATIENCE), "move back");

    /* One that is shared is only to be read. */
    arrival = next(bulk, TOMBOLO_SHARED);
    printf("shared: %s\n", (const char *)tombolo_buffer_data(arrival.buffer));
    uint64_t capability;
    memcpy(&capability, arrival.metadata, sizeof capability);

    /* With it came the id of a capability, which says nothing to those who were not granted it. */
    tombolo_capability *right;
    tombolo_mapping *mapping;
    must(tombolo_take_capability(domain, capability, &right), "take a capability");
    must(tombolo_map(right, TOMBOLO_READ, NULL, &mapping), "map a region");
    char seen[16];
    must(tombolo_mapping_read(mapping, 0, seen, sizeof seen), "read a region");
    printf("mapped: %.16s\n", seen);

    /* Its maker takes it back when it is told that all was seen: the memory is zeros from then on, and the next access says why. */
    must(tombolo_bulk_release(bulk, arrival.buffer, "seen", 4, PATIENCE), "release");
    next(bulk, TOMBOLO_PASSED);
    printf("then: %s\n", tombolo_error_name(tombolo_mapping_read(mapping, 0, seen, sizeof seen)));

    tombolo_unmap(mapping);
    tombolo_capability_drop(right);
    must(tombolo_bulk_close(bulk), "close");
    tombolo_unexport(listener);
}

static void send(tombolo_domain *domain, const char *name, const char *node)
{
    tombolo_bulk *bulk;
    must(tombolo_connect_bulk(domain, name, NULL, PATIENCE, &bulk), "connect");
    printf("connected to %s over %s\n", tombolo_bulk_peer_node(bulk), tombolo_bulk_transport(bulk));
    tombolo_pool *pool;
    tombolo_pool_options options = {BUFFER_BYTES, 4, TOMBOLO_TRUST_FULL, node};
    must(tombolo_create_pool(domain, &options, &pool), "make a pool");
    must(tombolo_bulk_assign(bulk, pool, false, PATIENCE), "assign the pool");

    tombolo_buffer *buffer;
    must(tombolo_pool_take(pool, &buffer), "take a buffer");
    strcpy(tombolo_buffer_memory(buffer), "from one to the other");
    must(tombolo_bulk_move(bulk, &buffer, 1, "number 1", 8, PATIENCE), "move");
    tombolo_arrival arrival = next(bulk, TOMBOLO_MOVED);
    printf("back: %s\n", (const char *)tombolo_buffer_data(arrival.buffer));
    tombolo_buffer_drop(arrival.buffer);

    /* Memory that both map, for as long as its maker wants. */
    tombolo_region_options making = {0};
    making.length = BUFFER_BYTES;
    making.node = node;
    making.flags = node == NULL ? 0 : TOMBOLO_IN_WINDOW;
    tombolo_capability *region;
    tombolo_mapping *mapping;
    must(tombolo_create_region(domain, &making, &region), "make a region");
    must(tombolo_map(region, TOMBOLO_READ | TOMBOLO_WRITE, NULL, &mapping), "map it");
    must(tombolo_mapping_write(mapping, 0, "a word in common", 16), "write to it");
    uint64_t granted;
    must(tombolo_grant(region, tombolo_bulk_peer(bulk), NULL, TOMBOLO_READ, &granted), "grant");

    must(tombolo_pool_take(pool, &buffer), "take a buffer");
    strcpy(tombolo_buffer_memory(buffer), "to be read by both");
    must(tombolo_bulk_share(bulk, &buffer, 1, &granted, sizeof granted, PATIENCE), "share");
    arrival = next(bulk, TOMBOLO_RELEASED);
    printf("released: %.*s\n", (int)arrival.metadata_length, (const char *)arrival.metadata);
    must(tombolo_buffer_reclaim(buffer), "reclaim");

    tombolo_revoked revoked;
    must(tombolo_revoke(region, false, PATIENCE, &revoked), "revoke");
    printf("revoked: %" PRIu32 "\n", revoked.removed);
    must(tombolo_bulk_pass(bulk, buffer, "done", 4, PATIENCE), "pass");

    tombolo_status ended = tombolo_bulk_receive(bulk, PATIENCE, &arrival);
    printf("end: %s\n", tombolo_error_name(ended));
    tombolo_pool_counts counts;
    must(tombolo_pool_count_buffers(pool, &counts), "count");
    printf("free: %" PRIu32 "\n", counts.free);
    must(tombolo_bulk_close(bulk), "close");
    tombolo_pool_drop(pool);
    tombolo_unmap(mapping);
    tombolo_capability_drop(region);
}

int main(int count, char **arguments)
{
    bool sends = count >= 3 && strcmp(arguments[1], "send") == 0;
    if (!sends && (count != 3 || strcmp(arguments[1], "receive") != 0)) {
        fprintf(stderr, "usage: bulk receive NAME | bulk send NAME [NODE]\n");
        return 2;
    }
    tombolo_domain *domain;
    must(tombolo_attach(&domain), "attach");
    if (sends) {
        send(domain, arguments[2], count > 3 ? arguments[3] : NULL);
    } else {
        receive(domain, arguments[2]);
    }
    tombolo_detach(domain);
    return 0;
}
