/* Threads that change their node at a function's beginning and at its end, in programs that `tombolo ompcc` makes.

   Before the definition of a function that is not static:

       TOMBOLO_MIGRATE(work)
       int work(int input)
       {

   tombolo_migrate says on which node calls of such functions are executed from then on. The caller waits meanwhile. Programs that another
   compiler makes execute them as any function. */
#ifndef TOMBOLO_MIGRATE_H
#define TOMBOLO_MIGRATE_H

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __TOMBOLO_OMPCC__

/* Calls of the function that is defined next may go to another node. The function becomes weak and is compiled as if its callers were
   unknown, so that each call, also its own, is one that the linker can lead elsewhere; it gets a second name, by which it is called once
   its node is reached. */
#define TOMBOLO_MIGRATE(function)                                                           \
    TOMBOLO_MIGRATE_PRAGMA(weak function) TOMBOLO_MIGRATE_MARK(#function)                   \
    __attribute__((noipa))
#define TOMBOLO_MIGRATE_PRAGMA(words) _Pragma(#words)
#define TOMBOLO_MIGRATE_MARK(name)                                                                    \
    __asm__(".pushsection .tombolo.migrate,\"\",%progbits\n\t.asciz \"" name "\"\n\t.popsection\n\t"  \
            ".globl __tombolo_migrates_" name "\n\t.set __tombolo_migrates_" name ", " name);

/* Has marked functions that this thread calls executed on this node from now on: 0 is the node where the program began, 1 the first of
   OMP_TOMBOLO_NODES, and so on. Where the thread is does not change until it calls such a function. Returns 0, or -1 with errno EINVAL
   if the job has no such node. */
int tombolo_migrate(int node);

/* The node that the caller is executed on. */
int tombolo_node(void);

/* How many nodes the job has. */
int tombolo_nodes(void);

/* The number of the node with this name, or -1 with errno ENOENT. */
int tombolo_node_named(const char *name);

#else

#include <errno.h>

#define TOMBOLO_MIGRATE(function)

static inline int tombolo_migrate(int node)
{
    if (node == 0)
        return 0;
    errno = EINVAL;
    return -1;
}

static inline int tombolo_node(void)
{
    return 0;
}

static inline int tombolo_nodes(void)
{
    return 1;
}

static inline int tombolo_node_named(const char *name)
{
    (void)name;
    errno = ENOENT;
    return -1;
}

#endif

#ifdef __cplusplus
}
#endif
#endif
