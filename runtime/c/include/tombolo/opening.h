/*
 * Channels that are opened with a request, on which the listener decides: a few bytes that say what the channel is for.
 *
 * A tombolo_request_listener may be shared by threads. A tombolo_opening is one thread's, and is decided once.
 */
#ifndef TOMBOLO_OPENING_H
#define TOMBOLO_OPENING_H

#include <tombolo.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As tombolo_connect, with a request of up to 1,024 bytes on which the listener decides. `kind` stands for what the bytes mean,
 * such as the hash of an interface; the listener must have the same, or it is TOMBOLO_REFUSED. TOMBOLO_OPENING_REFUSED: the
 * listener refused; the text of the failure has its reason. */
tombolo_status tombolo_connect_with(const tombolo_domain *domain, const char *name, const tombolo_options *options,
                                    uint64_t kind, const void *request, size_t length, uint64_t timeout_ns,
                                    tombolo_channel **channel);

/* A name under which programs connect with requests, and a program that has. */
typedef struct tombolo_request_listener tombolo_request_listener;
typedef struct tombolo_opening tombolo_opening;

/* As tombolo_export, for programs that connect with requests of that kind. Give it back with tombolo_unexport_requests. */
tombolo_status tombolo_export_for_requests(const tombolo_domain *domain, const char *name, const tombolo_options *options,
                                           uint64_t kind, tombolo_request_listener **listener);
void tombolo_unexport_requests(tombolo_request_listener *listener);

/* Waits for a program to connect, and up to 10 s for its request. Others can be accepted after TOMBOLO_REFUSED, TOMBOLO_VIOLATION
 * and TOMBOLO_TIMED_OUT. Every opening is to be decided with tombolo_opening_accept or tombolo_opening_refuse, once. */
tombolo_status tombolo_accept_request(const tombolo_request_listener *listener, uint64_t timeout_ns,
                                      tombolo_opening **opening);

/* The bytes of the request, for as long as it is not decided. */
tombolo_status tombolo_opening_request(const tombolo_opening *opening, const void **request, size_t *length);

/* Accepts: the channel is open. The opening is gone, whatever the status. */
tombolo_status tombolo_opening_accept(tombolo_opening *opening, tombolo_channel **channel);

/* Refuses with a reason, of which up to 512 bytes are sent. The opening is gone, whatever the status. */
tombolo_status tombolo_opening_refuse(tombolo_opening *opening, const char *reason);

#ifdef __cplusplus
}
#endif

#endif
