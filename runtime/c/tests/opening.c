/* Connects with requests that are refused and accepted, then takes one itself: tests/languages/c.rs has the other side. */

#include <stdio.h>
#include <string.h>

#include <tombolo/opening.h>

#define KIND UINT64_C(0x5e55)
#define PATIENCE_NS UINT64_C(60000000000)

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tombolo_last_error());
    return 1;
}

int main(void)
{
    tombolo_domain *domain;
    if (tombolo_attach(&domain) != TOMBOLO_OK)
        return failed("attach");

    tombolo_channel *channel;
    tombolo_status status =
        tombolo_connect_with(domain, "store-rust", NULL, KIND, "write", 5, PATIENCE_NS, &channel);
    if (status != TOMBOLO_OPENING_REFUSED)
        return failed("a request that should be refused");
    printf("refused: %s\n", tombolo_last_error());
    if (tombolo_connect_with(domain, "store-rust", NULL, KIND, "read-only", 9, PATIENCE_NS, &channel) != TOMBOLO_OK)
        return failed("a request that should be accepted");
    if (tombolo_send(channel, "hello", 5, PATIENCE_NS) != TOMBOLO_OK)
        return failed("send");
    tombolo_close(channel);

    tombolo_request_listener *listener;
    if (tombolo_export_for_requests(domain, "store-c", NULL, KIND, &listener) != TOMBOLO_OK)
        return failed("export");
    printf("serving\n");
    fflush(stdout);
    for (int decided = 0; decided < 2; decided++) {
        tombolo_opening *opening;
        const void *request;
        size_t length;
        if (tombolo_accept_request(listener, PATIENCE_NS, &opening) != TOMBOLO_OK)
            return failed("accept");
        if (tombolo_opening_request(opening, &request, &length) != TOMBOLO_OK)
            return failed("request");
        if (length == 4 && memcmp(request, "open", 4) == 0) {
            if (tombolo_opening_accept(opening, &channel) != TOMBOLO_OK)
                return failed("open");
            if (tombolo_send(channel, "welcome", 7, PATIENCE_NS) != TOMBOLO_OK)
                return failed("send");
            tombolo_close(channel);
        } else if (tombolo_opening_refuse(opening, "this store is full") != TOMBOLO_OK) {
            return failed("refuse");
        }
    }
    if (tombolo_opening_refuse(NULL, "x") != TOMBOLO_INVALID_ARGUMENT)
        return failed("a null opening");
    tombolo_unexport_requests(listener);
    tombolo_detach(domain);
    printf("done\n");
    return 0;
}
