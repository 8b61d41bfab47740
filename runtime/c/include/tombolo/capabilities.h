/*
 * Uses of capabilities beside mapping memory: disjoint parts of regions, services, and capabilities given to a program at its start.
 */
#ifndef TOMBOLO_CAPABILITIES_H
#define TOMBOLO_CAPABILITIES_H

#include <tombolo.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The right to open channels to a service, beside TOMBOLO_READ, TOMBOLO_WRITE and TOMBOLO_GRANT. */
#define TOMBOLO_CONNECT UINT32_C(8)

/* Kind of object that a capability refers to. */
enum {
    TOMBOLO_PART_MEMORY = 0, /* memory, which can be mapped or split */
    TOMBOLO_PART_FRAME = 1,  /* a part that can be mapped, but not split */
    TOMBOLO_PART_POOL = 2,   /* a part that only a pool can map: tombolo_create_pool_in */
    TOMBOLO_A_SERVICE = 3    /* a service, to which channels are opened: tombolo_connect_by */
};

/* Returns the capability's kind; TOMBOLO_PART_MEMORY for null. */
uint32_t tombolo_capability_kind(const tombolo_capability *capability);

/* Splits `count` disjoint parts of a kind off the memory and stores a capability to each, with the rights of this one, in `children`,
 * which has room for `count`. Extents are relative to the start of this capability's part. Requires TOMBOLO_READ and TOMBOLO_WRITE.
 * While a program holds a capability to a part or has it mapped, its bytes can neither be mapped through other capabilities to the
 * memory nor be split again: TOMBOLO_IN_USE, and tombolo_last_error() names the bytes. Revoking this one takes back all parts. */
tombolo_status tombolo_split(const tombolo_capability *capability, uint32_t kind, const tombolo_extent *parts, size_t count,
                             tombolo_capability **children);

/* As tombolo_create_pool, in memory that this program has a capability to. Requires the rights to read and write, and to grant if
 * other domains are to get the pool. Best used with a part of kind TOMBOLO_PART_POOL. */
tombolo_status tombolo_create_pool_in(const tombolo_domain *domain, const tombolo_capability *memory,
                                      const tombolo_pool_options *options, tombolo_pool **pool);

/* Listens without a name: a client needs a capability to the service, with TOMBOLO_CONNECT. Options may be null. */
tombolo_status tombolo_serve(const tombolo_domain *domain, const tombolo_options *options, tombolo_listener **listener,
                             tombolo_capability **service);

/* Returns a capability to a listener, with TOMBOLO_CONNECT and TOMBOLO_GRANT. Revoking it leaves open channels open. */
tombolo_status tombolo_listener_capability(const tombolo_listener *listener, tombolo_capability **service);

/* As tombolo_connect, through a capability to a service. */
tombolo_status tombolo_connect_by(const tombolo_domain *domain, const tombolo_capability *service, const tombolo_options *options,
                                  uint64_t timeout_ns, tombolo_channel **channel);

/* A capability that a program is started with. It is derived from one of this program's, which must include TOMBOLO_GRANT and be
 * held until the other program has started. It ends with that program, and when the original is revoked. */
typedef struct tombolo_given {
    const char *name;                     /* under which the program takes it */
    const tombolo_capability *capability; /* to derive it from */
    tombolo_extent extent;                /* part, relative to the start of the capability's own; length 0 for all of it */
    uint32_t rights;                      /* subset of its rights */
    uint32_t reserved;
} tombolo_given;

/* As tombolo_spawn, with `count` capabilities. If one of them cannot be given, nothing is started. */
tombolo_status tombolo_spawn_with(const tombolo_domain *domain, const tombolo_spawn_options *options, const tombolo_given *given,
                                  size_t count, tombolo_child **child);

/* Takes the capability that this program was started with under a name. May be called again. TOMBOLO_NO_SUCH_CAPABILITY: none. */
tombolo_status tombolo_take_given(const tombolo_domain *domain, const char *name, tombolo_capability **capability);

#ifdef __cplusplus
}
#endif

#endif
