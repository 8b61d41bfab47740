/* What programs can say to Tombolo's run-time of OpenMP besides what OpenMP has. All of it is weak, so that a program links with any
   libgomp: test a function before calling it, as in `if (tombolo_omp_replicate) tombolo_omp_replicate(data, sizeof data);`. */
#ifndef TOMBOLO_OMP_H
#define TOMBOLO_OMP_H

#include <omp.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Declares that the program does not write to this memory until tombolo_omp_restore. Nodes whose memory is behind a window get a copy
   of their own, at the same addresses: reading that is faster by orders of magnitude. It has to be memory that workers share:
   variables, or what malloc returned. Whole pages are copied; pages that it covers in part stay shared. All nodes have their copy when
   this returns. A write to it ends the job. Returns 0, or EINVAL where the memory is not shared, or ENOMEM. Does nothing where all
   workers have the same memory. */
int tombolo_omp_replicate(const void *begin, size_t bytes) __attribute__((weak));

/* Makes all nodes share this memory again. Call it before the memory is written to or freed. */
int tombolo_omp_restore(const void *begin, size_t bytes) __attribute__((weak));

/* The name of the node that a device is, or that of the host's: as much of it as fits, with a zero behind. Returns how long it is, or
   -1 if there is no such device. */
int tombolo_omp_device_name(int device, char *name, size_t bytes) __attribute__((weak));

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
/* Functions of OpenMP 5.1 that the header of this GCC does not declare. */
void *omp_get_mapped_ptr(const void *memory, int device) __attribute__((weak));
int omp_target_is_accessible(const void *memory, size_t size, int device) __attribute__((weak));
int omp_target_memcpy_async(void *target, const void *source, size_t length, size_t target_offset, size_t source_offset,
                            int target_device, int source_device, int depobj_count, omp_depend_t *depobj_list)
    __attribute__((weak));
int omp_target_memcpy_rect_async(void *target, const void *source, size_t element_size, int dimensions,
                                 const size_t *lengths, const size_t *target_offsets, const size_t *source_offsets,
                                 const size_t *target_lengths, const size_t *source_lengths, int target_device,
                                 int source_device, int depobj_count, omp_depend_t *depobj_list) __attribute__((weak));
#endif

#ifdef __cplusplus
}
#endif
#endif
