/*
 * Channels opened with a request: a few bytes that describe the channel's purpose, which the listener accepts or refuses.
 *
 * Threads may share a tombolo_request_listener. A tombolo_opening belongs to one thread, and is decided once.
 */
#ifndef TOMBOLO_OPENING_H
#define TOMBOLO_OPENING_H

#include <tombolo.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As tombolo_connect, with a request of up to 1,024 bytes that the listener accepts or refuses. `kind` identifies the format of
 * the bytes, such as the hash of an interface; if the listener's differs, it is TOMBOLO_REFUSED. TOMBOLO_OPENING_REFUSED: the
 * listener refused; tombolo_last_error() contains its reason. */
tombolo_status tombolo_connect_with(const tombolo_domain *domain, const char *name, const tombolo_options *options,
                                    uint64_t kind, const void *request, size_t length, uint64_t timeout_ns,
                                    tombolo_channel **channel);

/* A name that programs connect to with requests, and one such request waiting for a decision. */
typedef struct tombolo_request_listener tombolo_request_listener;
typedef struct tombolo_opening tombolo_opening;

/* As tombolo_export, for programs that connect with requests of that kind. Release it with tombolo_unexport_requests. */
tombolo_status tombolo_export_for_requests(const tombolo_domain *domain, const char *name, const tombolo_options *options,
                                           uint64_t kind, tombolo_request_listener **listener);
void tombolo_unexport_requests(tombolo_request_listener *listener);

/* Waits for a program to connect, and up to 10 s for its request. After TOMBOLO_REFUSED, TOMBOLO_VIOLATION and TOMBOLO_TIMED_OUT
 * the listener can accept others. Decide every opening with tombolo_opening_accept or tombolo_opening_refuse, once. */
tombolo_status tombolo_accept_request(const tombolo_request_listener *listener, uint64_t timeout_ns,
                                      tombolo_opening **opening);

/* Returns the bytes of the request, valid until it is decided. */
tombolo_status tombolo_opening_request(const tombolo_opening *opening, const void **request, size_t *length);

/* Accepts the request and opens the channel. Releases the opening, even on failure. */
tombolo_status tombolo_opening_accept(tombolo_opening *opening, tombolo_channel **channel);

/* Refuses the request with a reason, of which up to 512 bytes are sent. Releases the opening, even on failure. */
tombolo_status tombolo_opening_refuse(tombolo_opening *opening, const char *reason);

#ifdef __cplusplus
}
#endif

#endif
