/* What goes wrong with regions, pools and buffers, and that nothing has changed then. Run by the end-to-end tests on a machine:
 *
 *     memory check NAME      goes through the cases, with a peer
 *     memory peer NAME       the peer: takes what comes and keeps it, until the other end is gone
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tombolo.h"
#include "tombolo/capabilities.h"

#define PAGE 4096
#define PATIENCE (60 * TOMBOLO_SECOND)

static int cases;

static void expect_at(int line, tombolo_status expected, tombolo_status found)
{
    cases++;
    if (found != expected) {
        fprintf(stderr, "line %d: %s instead of %s: %s\n", line, tombolo_error_name(found), tombolo_error_name(expected),
                tombolo_last_error());
        exit(1);
    }
}

static void must_at(int line, bool holds)
{
    cases++;
    if (!holds) {
        fprintf(stderr, "line %d: it does not hold: %s\n", line, tombolo_last_error());
        exit(1);
    }
}

#define EXPECT(expected, found) expect_at(__LINE__, (expected), (found))
#define MUST(holds) must_at(__LINE__, (holds))

static void test_regions(tombolo_domain *domain)
{
    tombolo_region_options options = {0};
    tombolo_capability *region = NULL, *part = NULL, *none = NULL;
    EXPECT(TOMBOLO_INVALID_ARGUMENT, tombolo_create_region(domain, NULL, &region));
    EXPECT(TOMBOLO_INVALID_ARGUMENT, tombolo_create_region(NULL, &options, &region));
    options.length = 4 * PAGE;
    EXPECT(TOMBOLO_INVALID_ARGUMENT, tombolo_create_region(domain, &options, NULL));
    options.flags = 8;
    EXPECT(TOMBOLO_INVALID_ARGUMENT, tombolo_create_region(domain, &options, &region));
    options.flags = TOMBOLO_IN_WINDOW;
    EXPECT(TOMBOLO_INVALID_ARGUMENT, tombolo_create_region(domain, &options, &region));
    options.flags = 0;
    options.node = "nowhere";
    EXPECT(TOMBOLO_NO_SUCH_NODE, tombolo_create_region(domain, &options, &region));
    options.node = NULL;
    EXPECT(TOMBOLO_OK, tombolo_create_region(domain, &options, &region));
    MUST(tombolo_capability_extent(region).length == 4 * PAGE && tombolo_capability_rights(region) == 7);

    tombolo_extent inside = {PAGE, 2 * PAGE}, outside = {3 * PAGE, 2 * PAGE}, unaligned = {0, 100};
    EXPECT(TOMBOLO_OK, tombolo_derive(region, &inside, TOMBOLO_READ, &part));
    MUST(tombolo_capability_region(part) == tombolo_capability_region(region));
    EXPECT(TOMBOLO_OUT_OF_RANGE, tombolo_derive(region, &outside, TOMBOLO_READ, &none));
    EXPECT(TOMBOLO_OUT_OF_RANGE, tombolo_derive(region, &unaligned, TOMBOLO_READ, &none));
    EXPECT(TOMBOLO_LACKS_RIGHT, tombolo_derive(part, NULL, TOMBOLO_WRITE, &none));
    EXPECT(TOMBOLO_INVALID_ARGUMENT, tombolo_derive(part, NULL, 16, &none));
    uint64_t id;
    EXPECT(TOMBOLO_NO_SUCH_DOMAIN, tombolo_grant(region, 0, NULL, TOMBOLO_READ, &id));
    EXPECT(TOMBOLO_NO_SUCH_CAPABILITY, tombolo_take_capability(domain, UINT64_MAX, &none));

    tombolo_mapping *writable, *mapping;
    EXPECT(TOMBOLO_LACKS_RIGHT, tombolo_map(part, TOMBOLO_READ | TOMBOLO_WRITE, NULL, &mapping));
    EXPECT(TOMBOLO_OK, tombolo_map(region, TOMBOLO_READ | TOMBOLO_WRITE, NULL, &writable));
    tombolo_map_options aligned = {0};
    aligned.alignment = 3;
    EXPECT(TOMBOLO_INVALID_ARGUMENT, tombolo_map(part, TOMBOLO_READ, &aligned, &mapping));
    aligned.alignment = 1 << 20;
    EXPECT(TOMBOLO_OK, tombolo_map(part, TOMBOLO_READ, &aligned, &mapping));
    MUST((uintptr_t)tombolo_mapping_address(mapping) % aligned.alignment == 0);
    MUST(tombolo_mapping_length(mapping) == 2 * PAGE && !tombolo_mapping_is_writable(mapping));
    unsigned char *first = tombolo_mapping_address(writable), *second = tombolo_mapping_address(mapping);
    first[PAGE] = 7;
    MUST(second[0] == 7);
    unsigned char byte = 0;
    EXPECT(TOMBOLO_OK, tombolo_mapping_read(mapping, 0, &byte, 1));
    MUST(byte == 7);
    EXPECT(TOMBOLO_OUT_OF_RANGE, tombolo_mapping_read(mapping, 2 * PAGE, &byte, 1));
    EXPECT(TOMBOLO_LACKS_RIGHT, tombolo_mapping_write(mapping, 0, &byte, 1));
    EXPECT(TOMBOLO_SEALED, tombolo_freeze(region));

    tombolo_shown shown;
    EXPECT(TOMBOLO_OK, tombolo_show(part, &shown));
    MUST(shown.capability.parent == tombolo_capability_id(region) && shown.region.backing == TOMBOLO_IN_MEMORY);
    size_t count;
    EXPECT(TOMBOLO_BUFFER_TOO_SHORT, tombolo_capabilities(domain, NULL, 0, &count));
    MUST(count == 2);
    tombolo_capability_info held[2];
    EXPECT(TOMBOLO_OK, tombolo_capabilities(domain, held, 2, &count));
    MUST(held[0].holder == tombolo_domain_id(domain));

    tombolo_revoked revoked;
    EXPECT(TOMBOLO_OK, tombolo_revoke(region, false, PATIENCE, &revoked));
    MUST(revoked.removed == 1 && revoked.killed == 0);
    EXPECT(TOMBOLO_REVOKED, tombolo_mapping_check(mapping));
    EXPECT(TOMBOLO_REVOKED, tombolo_mapping_read(mapping, 0, &byte, 1));
    MUST(second[0] == 0 && first[PAGE] == 7);
    EXPECT(TOMBOLO_NO_SUCH_CAPABILITY, tombolo_show(part, &shown));
    tombolo_unmap(mapping);
    tombolo_unmap(writable);
    tombolo_capability_drop(part);
    EXPECT(TOMBOLO_OK, tombolo_revoke(region, true, PATIENCE, NULL));
    tombolo_capability_drop(region);

    static char own[PAGE];
    EXPECT(TOMBOLO_OK, tombolo_register_memory(domain, own, sizeof own, &region));
    EXPECT(TOMBOLO_OK, tombolo_show(region, &shown));
    MUST(shown.region.backing == TOMBOLO_FOREIGN && shown.foreign_address == (uint64_t)(uintptr_t)own);
    EXPECT(TOMBOLO_NOT_REACHABLE, tombolo_map(region, TOMBOLO_READ, NULL, &mapping));
    tombolo_capability_drop(region);
    EXPECT(TOMBOLO_INVALID_ARGUMENT, tombolo_region_of_file(domain, -1, PAGE, &region));
    tombolo_capability_drop(NULL);
    tombolo_unmap(NULL);
}

/* Parts of memory, services, and rights given to started programs. */
static void test_parts_and_services(tombolo_domain *domain)
{
    tombolo_region_options options = {0};
    tombolo_capability *region, *parts[2], *more[1], *service, *named, *given;
    options.length = 4 * PAGE;
    EXPECT(TOMBOLO_OK, tombolo_create_region(domain, &options, &region));
    tombolo_extent halves[2] = {{0, PAGE}, {2 * PAGE, 2 * PAGE}}, across = {PAGE, 2 * PAGE};
    EXPECT(TOMBOLO_INVALID_ARGUMENT, tombolo_split(region, TOMBOLO_A_SERVICE, halves, 2, parts));
    EXPECT(TOMBOLO_INVALID_ARGUMENT, tombolo_split(region, TOMBOLO_PART_POOL, NULL, 2, parts));
    EXPECT(TOMBOLO_OK, tombolo_split(region, TOMBOLO_PART_POOL, halves, 2, parts));
    MUST(tombolo_capability_kind(parts[0]) == TOMBOLO_PART_POOL && tombolo_capability_kind(region) == TOMBOLO_PART_MEMORY);
    MUST(tombolo_capability_extent(parts[1]).offset == 2 * PAGE);
    EXPECT(TOMBOLO_IN_USE, tombolo_split(region, TOMBOLO_PART_FRAME, &across, 1, more));
    MUST(strstr(tombolo_last_error(), "4096+8192") != NULL && strstr(tombolo_last_error(), "8192+8192") != NULL);
    tombolo_mapping *mapping;
    EXPECT(TOMBOLO_IN_USE, tombolo_map(region, TOMBOLO_READ, NULL, &mapping));
    EXPECT(TOMBOLO_WRONG_KIND, tombolo_map(parts[0], TOMBOLO_READ, NULL, &mapping));
    tombolo_pool_options pool_options = {0};
    pool_options.buffer_bytes = 1024;
    pool_options.count = 8;
    tombolo_pool *pool;
    EXPECT(TOMBOLO_SYSTEM, tombolo_create_pool_in(domain, parts[0], &pool_options, &pool));
    EXPECT(TOMBOLO_OK, tombolo_create_pool_in(domain, parts[1], &pool_options, &pool));
    tombolo_pool_drop(pool);

    tombolo_listener *listener;
    tombolo_channel *here, *there;
    EXPECT(TOMBOLO_OK, tombolo_serve(domain, NULL, &listener, &service));
    MUST(tombolo_capability_kind(service) == TOMBOLO_A_SERVICE
         && tombolo_capability_rights(service) == (TOMBOLO_CONNECT | TOMBOLO_GRANT));
    EXPECT(TOMBOLO_LACKS_RIGHT, tombolo_connect_by(domain, region, NULL, PATIENCE, &here));
    EXPECT(TOMBOLO_LACKS_RIGHT, tombolo_map(service, TOMBOLO_READ, NULL, &mapping));
    EXPECT(TOMBOLO_TIMED_OUT, tombolo_connect_by(domain, service, NULL, TOMBOLO_SECOND / 100, &here));
    EXPECT(TOMBOLO_OK, tombolo_listener_capability(listener, &named));
    tombolo_revoked revoked;
    EXPECT(TOMBOLO_OK, tombolo_revoke(service, true, PATIENCE, &revoked));
    EXPECT(TOMBOLO_NO_SUCH_CAPABILITY, tombolo_connect_by(domain, service, NULL, PATIENCE, &there));
    tombolo_unexport(listener);
    EXPECT(TOMBOLO_NO_SUCH_CAPABILITY, tombolo_connect_by(domain, named, NULL, PATIENCE, &there));

    EXPECT(TOMBOLO_NO_SUCH_CAPABILITY, tombolo_take_given(domain, "nothing", &given));
    tombolo_spawn_options child = {0};
    tombolo_child *started;
    tombolo_given grant = {"part", region, {0, 0}, 16, 0};
    child.node = "nowhere";
    EXPECT(TOMBOLO_INVALID_ARGUMENT, tombolo_spawn_with(domain, &child, &grant, 1, &started));
    grant.rights = TOMBOLO_READ;
    EXPECT(TOMBOLO_NO_SUCH_NODE, tombolo_spawn_with(domain, &child, &grant, 1, &started));
    EXPECT(TOMBOLO_INVALID_ARGUMENT, tombolo_spawn_with(domain, &child, NULL, 1, &started));
    tombolo_capability_drop(service);
    tombolo_capability_drop(named);
    tombolo_capability_drop(parts[0]);
    tombolo_capability_drop(parts[1]);
    tombolo_capability_drop(region);
}

static void test_buffers(tombolo_domain *domain)
{
    tombolo_pool_options options = {63, 2, TOMBOLO_TRUST_FULL, NULL};
    tombolo_pool *pool = NULL;
    EXPECT(TOMBOLO_INVALID_ARGUMENT, tombolo_create_pool(domain, &options, &pool));
    options.buffer_bytes = 64;
    options.trust = 3;
    EXPECT(TOMBOLO_INVALID_ARGUMENT, tombolo_create_pool(domain, &options, &pool));
    options.trust = TOMBOLO_TRUST_FULL;
    EXPECT(TOMBOLO_OK, tombolo_create_pool(domain, &options, &pool));
    tombolo_buffer *first = NULL, *second = NULL, *third = NULL;
    EXPECT(TOMBOLO_OK, tombolo_pool_take(pool, &first));
    EXPECT(TOMBOLO_OK, tombolo_pool_take(pool, &second));
    EXPECT(TOMBOLO_NO_BUFFER, tombolo_pool_take(pool, &third));
    EXPECT(TOMBOLO_OK, tombolo_buffer_write(first, 60, "four", 4));
    EXPECT(TOMBOLO_OUT_OF_RANGE, tombolo_buffer_write(first, 61, "four", 4));
    EXPECT(TOMBOLO_OUT_OF_RANGE, tombolo_buffer_set_part(first, 1, 64));
    EXPECT(TOMBOLO_OK, tombolo_buffer_set_part(first, 60, 4));
    MUST(tombolo_buffer_length(first) == 4 && memcmp(tombolo_buffer_data(first), "four", 4) == 0);
    MUST(tombolo_buffer_memory(first) == tombolo_buffer_data(first) && !tombolo_buffer_is_shared(first));
    EXPECT(TOMBOLO_BUFFER_STATE, tombolo_buffer_reclaim(first));
    uint32_t number = tombolo_buffer_number(second);
    tombolo_buffer_drop(second);
    EXPECT(TOMBOLO_OK, tombolo_pool_take(pool, &second));
    MUST(tombolo_buffer_number(second) == number);
    tombolo_buffer_drop(first);
    tombolo_pool_drop(pool);
    /* A buffer keeps what it needs of its pool. */
    EXPECT(TOMBOLO_OK, tombolo_buffer_write(second, 0, "still", 5));
    tombolo_buffer_drop(second);
    tombolo_buffer_drop(NULL);
}

static void test_transfers(tombolo_domain *domain, const char *name, uint32_t trust)
{
    tombolo_bulk_options bulk_options = {0};
    tombolo_bulk *bulk = NULL;
    bulk_options.max_pools = 33;
    EXPECT(TOMBOLO_INVALID_ARGUMENT, tombolo_connect_bulk(domain, name, &bulk_options, PATIENCE, &bulk));
    bulk_options.max_pools = 0;
    bulk_options.trust = trust;
    EXPECT(TOMBOLO_OK, tombolo_connect_bulk(domain, name, &bulk_options, PATIENCE, &bulk));
    tombolo_pool_options options = {PAGE, 4, trust, NULL};
    tombolo_pool *pool, *other;
    EXPECT(TOMBOLO_OK, tombolo_create_pool(domain, &options, &pool));
    options.trust = trust == TOMBOLO_TRUST_FULL ? TOMBOLO_TRUST_NONE : TOMBOLO_TRUST_FULL;
    EXPECT(TOMBOLO_OK, tombolo_create_pool(domain, &options, &other));
    EXPECT(TOMBOLO_POOL_REFUSED, tombolo_bulk_assign(bulk, other, false, PATIENCE));
    tombolo_pool_drop(other);
    EXPECT(TOMBOLO_OK, tombolo_bulk_assign(bulk, pool, true, PATIENCE));
    EXPECT(TOMBOLO_POOL_REFUSED, tombolo_bulk_assign(bulk, pool, true, PATIENCE));

    tombolo_region_options region_options = {0};
    region_options.length = PAGE;
    tombolo_capability *region, *narrow;
    uint64_t id;
    EXPECT(TOMBOLO_OK, tombolo_create_region(domain, &region_options, &region));
    EXPECT(TOMBOLO_OK, tombolo_derive(region, NULL, TOMBOLO_READ, &narrow));
    EXPECT(TOMBOLO_LACKS_RIGHT, tombolo_grant(narrow, tombolo_bulk_peer(bulk), NULL, TOMBOLO_READ, &id));
    EXPECT(TOMBOLO_OK, tombolo_give(region, tombolo_bulk_peer(bulk)));
    tombolo_shown shown;
    EXPECT(TOMBOLO_NO_SUCH_CAPABILITY, tombolo_show(region, &shown));
    tombolo_capability_drop(narrow);
    tombolo_capability_drop(region);

    tombolo_buffer *pair[2], *twice[2];
    EXPECT(TOMBOLO_OK, tombolo_pool_take(pool, &pair[0]));
    EXPECT(TOMBOLO_OK, tombolo_pool_take(pool, &pair[1]));
    twice[0] = twice[1] = pair[0];
    char oversized[4096] = {0};
    EXPECT(TOMBOLO_BUFFER_STATE, tombolo_bulk_move(bulk, twice, 2, NULL, 0, PATIENCE));
    EXPECT(TOMBOLO_INVALID_ARGUMENT, tombolo_bulk_move(bulk, pair, 0, NULL, 0, PATIENCE));
    EXPECT(TOMBOLO_INVALID_ARGUMENT, tombolo_bulk_move(bulk, pair, 2, oversized, sizeof oversized, PATIENCE));
    EXPECT(TOMBOLO_INVALID_ARGUMENT, tombolo_bulk_move(bulk, NULL, 1, NULL, 0, PATIENCE));
    EXPECT(TOMBOLO_OK, tombolo_buffer_write(pair[0], 0, "still here", 10));
    EXPECT(TOMBOLO_BUFFER_STATE, tombolo_bulk_release(bulk, pair[0], NULL, 0, PATIENCE));
    EXPECT(TOMBOLO_OK, tombolo_bulk_share(bulk, &pair[1], 1, "x", 1, PATIENCE));
    MUST(tombolo_buffer_is_shared(pair[1]) && tombolo_buffer_shares(pair[1]) == 1);
    MUST(tombolo_buffer_memory(pair[1]) == NULL && tombolo_buffer_data(pair[1]) != NULL);
    EXPECT(TOMBOLO_BUFFER_STATE, tombolo_buffer_write(pair[1], 0, "x", 1));
    EXPECT(TOMBOLO_BUFFER_STATE, tombolo_buffer_reclaim(pair[1]));
    EXPECT(TOMBOLO_BUFFER_STATE, tombolo_bulk_move(bulk, pair, 2, NULL, 0, PATIENCE));
    EXPECT(TOMBOLO_BUFFER_STATE, tombolo_bulk_pass(bulk, pair[1], NULL, 0, PATIENCE));
    EXPECT(TOMBOLO_OK, tombolo_bulk_share(bulk, &pair[1], 1, NULL, 0, PATIENCE));
    MUST(tombolo_buffer_shares(pair[1]) == 2);
    EXPECT(TOMBOLO_OK, tombolo_bulk_move(bulk, &pair[0], 1, NULL, 0, PATIENCE));
    EXPECT(TOMBOLO_BUFFER_STATE, tombolo_bulk_unassign(bulk, pool, PATIENCE));
    tombolo_pool_counts counts;
    EXPECT(TOMBOLO_OK, tombolo_pool_count_buffers(pool, &counts));
    MUST(counts.free == 2 && counts.lent == 1 && counts.away == 1);

    /* The peer ends on request, while it holds all buffers that it received. */
    EXPECT(TOMBOLO_OK, tombolo_pool_take(pool, &pair[0]));
    EXPECT(TOMBOLO_OK, tombolo_bulk_pass(bulk, pair[0], "end", 3, PATIENCE));
    tombolo_arrival arrival;
    EXPECT(TOMBOLO_PEER_DIED, tombolo_bulk_receive(bulk, PATIENCE, &arrival));
    EXPECT(TOMBOLO_OK, tombolo_buffer_reclaim(pair[1]));
    EXPECT(TOMBOLO_OK, tombolo_pool_count_buffers(pool, &counts));
    MUST(counts.free == 3 && counts.held == 1);
    tombolo_buffer_drop(pair[1]);
    EXPECT(TOMBOLO_OK, tombolo_bulk_close(bulk));
    EXPECT(TOMBOLO_OK, tombolo_bulk_close(NULL));
    tombolo_pool_drop(pool);
}

static void run_peer(tombolo_domain *domain, const char *name, uint32_t trust)
{
    tombolo_bulk_options bulk_options = {0};
    bulk_options.trust = trust;
    tombolo_listener *listener, *plain;
    tombolo_bulk *bulk;
    EXPECT(TOMBOLO_OK, tombolo_export(domain, "@/plain", NULL, &plain));
    EXPECT(TOMBOLO_INVALID_ARGUMENT, tombolo_accept_bulk(plain, 0, &bulk));
    EXPECT(TOMBOLO_OK, tombolo_export_bulk(domain, name, &bulk_options, &listener));
    EXPECT(TOMBOLO_OK, tombolo_accept_bulk(listener, PATIENCE, &bulk));
    for (;;) {
        tombolo_arrival arrival;
        EXPECT(TOMBOLO_OK, tombolo_bulk_receive(bulk, PATIENCE, &arrival));
        if (arrival.kind == TOMBOLO_PASSED && arrival.metadata_length == 3) {
            /* Nothing is given back. */
            _Exit(0);
        }
    }
}

int main(int count, char **arguments)
{
    if (count != 4) {
        return 2;
    }
    tombolo_domain *domain;
    EXPECT(TOMBOLO_OK, tombolo_attach(&domain));
    uint32_t trust = strcmp(arguments[3], "none") == 0 ? TOMBOLO_TRUST_NONE : TOMBOLO_TRUST_FULL;
    if (strcmp(arguments[1], "peer") == 0) {
        run_peer(domain, arguments[2], trust);
    }
    test_regions(domain);
    test_parts_and_services(domain);
    test_buffers(domain);
    test_transfers(domain, arguments[2], trust);
    tombolo_detach(domain);
    printf("%d checks\n", cases);
    return 0;
}
