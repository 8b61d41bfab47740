/* A driver without a device: what is allocated "there" is memory here, so that the engine's own part can be tested where there
   is no graphics processor. It checks what a driver would: that calls come from a thread that has a context, and that ranges
   lie in what was allocated. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_CONTEXT = 201,
    ALREADY_PINNED = 712,
    NOT_PINNED = 713
};

struct block { struct block *next; size_t length; unsigned char bytes[]; };
struct pinned { struct pinned *next; uintptr_t first; size_t length; };

static int started, retained;
static struct block *blocks;
static struct pinned *pins;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local void *current;

static int usable(void) {
    if (!started) return NOT_INITIALIZED;
    return current == &retained ? SUCCESS : INVALID_CONTEXT;
}

static int inside(uint64_t pointer, size_t length) {
    int found = 0;
    pthread_mutex_lock(&lock);
    for (struct block *block = blocks; block; block = block->next) {
        uint64_t first = (uint64_t)(uintptr_t)block->bytes;
        if (pointer >= first && pointer - first <= block->length && length <= block->length - (pointer - first)) found = 1;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

#define ENTER(ranges) do { int code = usable(); if (code) return code; if (!(ranges)) return INVALID_VALUE; } while (0)
#define AT(pointer) ((void *)(uintptr_t)(pointer))

int cuInit(unsigned flags) { if (flags) return INVALID_VALUE; started = 1; return SUCCESS; }
int cuGetErrorName(int code, const char **name) {
    switch (code) {
        case INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; return SUCCESS;
        case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return SUCCESS;
        case NOT_INITIALIZED: *name = "CUDA_ERROR_NOT_INITIALIZED"; return SUCCESS;
        case INVALID_CONTEXT: *name = "CUDA_ERROR_INVALID_CONTEXT"; return SUCCESS;
        case ALREADY_PINNED: *name = "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"; return SUCCESS;
        case NOT_PINNED: *name = "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"; return SUCCESS;
        default: *name = 0; return INVALID_VALUE;
    }
}
int cuDeviceGetCount(int *count) { if (!started) return NOT_INITIALIZED; *count = 1; return SUCCESS; }
int cuDeviceGet(int *device, int ordinal) { if (ordinal != 0) return INVALID_VALUE; *device = 40; return SUCCESS; }
int cuDeviceGetName(char *name, int room, int device) {
    if (device != 40 || room < 5) return INVALID_VALUE;
    memcpy(name, "fake", 5);
    return SUCCESS;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    if (device != 40) return INVALID_VALUE;
    __atomic_add_fetch(&retained, 1, __ATOMIC_SEQ_CST);
    *context = &retained;
    return SUCCESS;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
    if (device != 40 || __atomic_sub_fetch(&retained, 1, __ATOMIC_SEQ_CST) < 0) abort();
    return SUCCESS;
}
int cuCtxSetCurrent(void *context) { current = context; return SUCCESS; }
int cuCtxSynchronize(void) { return usable(); }
int cuMemAlloc_v2(uint64_t *pointer, size_t length) {
    ENTER(length > 0);
    if (length > (size_t)1 << 30) return OUT_OF_MEMORY;
    struct block *block = malloc(sizeof *block + length);
    if (!block) return OUT_OF_MEMORY;
    memset(block->bytes, 0xDD, length);
    pthread_mutex_lock(&lock);
    block->length = length;
    block->next = blocks;
    blocks = block;
    pthread_mutex_unlock(&lock);
    *pointer = (uint64_t)(uintptr_t)block->bytes;
    return SUCCESS;
}
int cuMemFree_v2(uint64_t pointer) {
    ENTER(1);
    pthread_mutex_lock(&lock);
    for (struct block **at = &blocks; *at; at = &(*at)->next) {
        if ((uint64_t)(uintptr_t)(*at)->bytes == pointer) {
            struct block *freed = *at;
            *at = freed->next;
            free(freed);
            pthread_mutex_unlock(&lock);
            return SUCCESS;
        }
    }
    abort();
}
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t length) {
    ENTER(inside(to, length));
    memcpy(AT(to), from, length);
    return SUCCESS;
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t length) {
    ENTER(inside(from, length));
    memcpy(to, AT(from), length);
    return SUCCESS;
}
int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t length) {
    ENTER(inside(to, length) && inside(from, length));
    memcpy(AT(to), AT(from), length);
    return SUCCESS;
}
int cuMemsetD8_v2(uint64_t to, unsigned char byte, size_t length) {
    ENTER(inside(to, length));
    memset(AT(to), byte, length);
    return SUCCESS;
}
int cuMemHostRegister_v2(void *first, size_t length, unsigned flags) {
    ENTER(length > 0 && first && flags == 1);
    uintptr_t at = (uintptr_t)first;
    pthread_mutex_lock(&lock);
    for (struct pinned *pin = pins; pin; pin = pin->next) {
        if (at < pin->first + pin->length && pin->first < at + length) {
            pthread_mutex_unlock(&lock);
            return ALREADY_PINNED;
        }
    }
    struct pinned *pin = malloc(sizeof *pin);
    if (pin) *pin = (struct pinned){pins, at, length};
    if (pin) pins = pin;
    pthread_mutex_unlock(&lock);
    return pin ? SUCCESS : OUT_OF_MEMORY;
}
int cuMemHostUnregister(void *first) {
    ENTER(1);
    pthread_mutex_lock(&lock);
    for (struct pinned **at = &pins; *at; at = &(*at)->next) {
        if ((*at)->first == (uintptr_t)first) {
            struct pinned *unpinned = *at;
            *at = unpinned->next;
            free(unpinned);
            pthread_mutex_unlock(&lock);
            return SUCCESS;
        }
    }
    pthread_mutex_unlock(&lock);
    abort();
}
