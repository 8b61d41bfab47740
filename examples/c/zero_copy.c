/* The least move of a buffer: `tombolo run --on host,arm0 zero_copy.tbi` */
#include <stdio.h>
#include <tombolo.h>

int main(void)
{
    const uint64_t timeout = TOMBOLO_DEFAULT_TIMEOUT;
    const float numbers[] = {1.5F, 2.5F, 3.5F};
    tombolo_domain *domain;
    tombolo_bulk *bulk;
    tombolo_pool *pool;
    tombolo_buffer *frame;
    tombolo_arrival arrival = {0};
    tombolo_job job;
    if (tombolo_attach(&domain) || tombolo_get_job(domain, &job) ||
        tombolo_job_bulk(domain, 1 - job.rank, timeout, &bulk)) {
        goto failed;
    }
    if (job.rank == 0) {
        if (tombolo_bulk_create_pool(bulk, 1 << 20, 1, timeout, &pool) || tombolo_pool_take(pool, &frame) ||
            tombolo_buffer_write(frame, 0, numbers, sizeof numbers) ||
            tombolo_bulk_move(bulk, &frame, 1, "frame 1", 7, timeout) ||
            tombolo_bulk_receive(bulk, timeout, &arrival)) {
            goto failed;
        }
    } else {
        while (arrival.kind != TOMBOLO_MOVED) {
            if (tombolo_bulk_receive(bulk, timeout, &arrival)) {
                goto failed;
            }
        }
        const float *seen = tombolo_buffer_data(arrival.buffer);
        printf("%.*s: %.1f\n", (int)arrival.metadata_length, (const char *)arrival.metadata, seen[0] + seen[1] + seen[2]);
        if (tombolo_bulk_pass(bulk, arrival.buffer, "done", 4, timeout)) {
            goto failed;
        }
    }
    return 0;
failed:
    fprintf(stderr, "%s\n", tombolo_last_error());
    return 1;
}
