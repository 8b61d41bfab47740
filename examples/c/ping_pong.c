/* The least ping-pong: `tombolo run --on host,arm0 ping_pong.tbi` */
#include <stdio.h>
#include <tombolo.h>

int main(void)
{
    const uint64_t timeout = TOMBOLO_DEFAULT_TIMEOUT;
    tombolo_domain *domain;
    tombolo_channel *channel;
    tombolo_job job;
    char message[8];
    size_t length;
    if (tombolo_attach(&domain) || tombolo_get_job(domain, &job) ||
        tombolo_job_channel(domain, 1 - job.rank, timeout, &channel) ||
        (job.rank == 0 && tombolo_send(channel, "ping", 4, timeout)) ||
        tombolo_receive(channel, message, sizeof message, &length, timeout) ||
        (job.rank == 1 && tombolo_send(channel, "pong", 4, timeout))) {
        fprintf(stderr, "%s\n", tombolo_last_error());
        return 1;
    }
    printf("%s said %.*s\n", tombolo_peer_node(channel), (int)length, message);
    tombolo_close(channel);
    tombolo_detach(domain);
}
