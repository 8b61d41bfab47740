/*
 * What is done with capabilities beside mapping memory: parts that do not overlap, services, and what a program is started with.
 */
#ifndef TOMBOLO_CAPABILITIES_H
#define TOMBOLO_CAPABILITIES_H

#include <tombolo.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The right to open channels to a service, beside TOMBOLO_READ, TOMBOLO_WRITE and TOMBOLO_GRANT. */
#define TOMBOLO_CONNECT UINT32_C(8)

/* What a capability is to. */
enum {
    TOMBOLO_PART_MEMORY = 0, /* memory, which can be mapped or split */
    TOMBOLO_PART_FRAME = 1,  /* a part that can be mapped and not split */
    TOMBOLO_PART_POOL = 2,   /* a part that only a pool maps: tombolo_create_pool_in */
    TOMBOLO_A_SERVICE = 3    /* a service, to which channels are opened: tombolo_connect_by */
};

/* One of these; TOMBOLO_PART_MEMORY for null. */
uint32_t tombolo_capability_kind(const tombolo_capability *capability);

/* Splits the memory into `count` parts of a kind that do not overlap, and puts a capability to each, with the rights of this one, into
 * `children`, which has room for as many. Extents are counted from the start of this one's part. Takes TOMBOLO_READ and TOMBOLO_WRITE.
 * While a program holds a capability to a part or has it mapped, its bytes can neither be mapped by others to the memory nor split
 * again: that is TOMBOLO_IN_USE, and tombolo_last_error() names the bytes. Revoking this one takes all parts back. */
tombolo_status tombolo_split(const tombolo_capability *capability, uint32_t kind, const tombolo_extent *parts, size_t count,
                             tombolo_capability **children);

/* As tombolo_create_pool, in memory that this program has a capability to, with the rights to read and write; with that to grant if
 * others are to get the pool. Best in a part of kind TOMBOLO_PART_POOL. */
tombolo_status tombolo_create_pool_in(const tombolo_domain *domain, const tombolo_capability *memory,
                                      const tombolo_pool_options *options, tombolo_pool **pool);

/* Listens without a name: who wants to connect needs a capability to the service, with TOMBOLO_CONNECT. Options may be null. */
tombolo_status tombolo_serve(const tombolo_domain *domain, const tombolo_options *options, tombolo_listener **listener,
                             tombolo_capability **service);

/* A capability to a listener, with TOMBOLO_CONNECT and TOMBOLO_GRANT. When it is revoked, channels that are open stay. */
tombolo_status tombolo_listener_capability(const tombolo_listener *listener, tombolo_capability **service);

/* As tombolo_connect, by a capability to a service. */
tombolo_status tombolo_connect_by(const tombolo_domain *domain, const tombolo_capability *service, const tombolo_options *options,
                                  uint64_t timeout_ns, tombolo_channel **channel);

/* A capability that a program is started with: derived from one that this program holds until the other is started, and that gives
 * TOMBOLO_GRANT. It goes with the program, and when this program's is revoked. */
typedef struct tombolo_given {
    const char *name;                     /* by which the program asks for it */
    const tombolo_capability *capability; /* from which */
    tombolo_extent extent;                /* which part, counted from the start of its own; of length 0 for all of that */
    uint32_t rights;                      /* what of its rights */
    uint32_t reserved;
} tombolo_given;

/* As tombolo_spawn, with `count` capabilities. If one cannot be given, nothing is started. */
tombolo_status tombolo_spawn_with(const tombolo_domain *domain, const tombolo_spawn_options *options, const tombolo_given *given,
                                  size_t count, tombolo_child **child);

/* Takes up what this program was started with under a name. May be asked again. TOMBOLO_NO_SUCH_CAPABILITY if there is no such. */
tombolo_status tombolo_take_given(const tombolo_domain *domain, const char *name, tombolo_capability **capability);

#ifdef __cplusplus
}
#endif

#endif
