/* Regions for devices on the host, allocators, and what programs ask. */
#include <omp.h>
#include <stdint.h>
#include <string.h>
#include "../../../models/omp/gomp/tombolo_omp.h"
#include "check.h"

static void target(void) {
    int copied = 5, mapped[100], sum = 0;
    for (int at = 0; at < 100; at++) mapped[at] = at;
#pragma omp parallel num_threads(2)
#pragma omp single
#pragma omp target map(tofrom : mapped) firstprivate(copied)
    {
        EQUAL(omp_get_level(), 0);
        CHECK(omp_is_initial_device());
        copied++;
        EQUAL(copied, 6);
#pragma omp parallel for num_threads(2)
        for (int at = 0; at < 100; at++) mapped[at]++;
    }
    EQUAL(copied, 5);
    for (int at = 0; at < 100; at++) EQUAL(mapped[at], at + 1);
#pragma omp target teams distribute parallel for map(tofrom : sum) reduction(+ : sum)
    for (int at = 0; at < 1000; at++) sum += at;
    EQUAL(sum, 499500);
#pragma omp target enter data map(to : mapped)
#pragma omp target update to(mapped)
#pragma omp target exit data map(from : mapped)
#pragma omp target data map(mapped)
#pragma omp target nowait depend(inout : sum) map(tofrom : sum)
    sum++;
#pragma omp taskwait
    EQUAL(sum, 499501);
    int here = omp_get_initial_device();
    EQUAL(here, omp_get_num_devices());
    char *memory = omp_target_alloc(100, here), text[100] = "text";
    EQUAL(omp_target_memcpy(memory, text, 100, 0, 0, here, here), 0);
    CHECK(strcmp(memory, "text") == 0);
    size_t lengths[2] = {2, 3}, to[2] = {0, 1}, from[2] = {1, 2}, whole[2] = {10, 10};
    char square[10][10], other[10][10] = {{0}};
    for (int at = 0; at < 100; at++) square[at / 10][at % 10] = (char)at;
    EQUAL(omp_target_memcpy_rect(other, square, 1, 2, lengths, to, from, whole, whole, here, here), 0);
    EQUAL(other[1][3], 24);
    EQUAL(other[1][4], 0);
    CHECK(omp_target_is_accessible(text, 100, here) && !omp_target_is_accessible(NULL, 1, here));
    CHECK(omp_get_mapped_ptr(text, here) == text);
    omp_target_free(memory, here);
}

/* Copies by tasks: each needs what the one before it copied, and a task before them wrote. */
static void asynchronous(void) {
    int here = omp_get_initial_device(), *data = malloc(300 * sizeof *data), *one = data + 100, *two = data + 200;
    omp_depend_t objects[2];
#pragma omp depobj(objects[0]) depend(inout : data[0])
#pragma omp depobj(objects[1]) depend(out : two[0])
#pragma omp parallel
#pragma omp single
    for (int round = 1; round <= 50; round++) {
#pragma omp task depend(out : data[0]) firstprivate(round)
        for (int at = 0; at < 100; at++) data[at] = round * at;
        EQUAL(omp_target_memcpy_async(one, data, 99 * sizeof *data, sizeof *data, 0, here, here, 1, objects), 0);
        size_t lengths[2] = {9, 9}, to[2] = {1, 1}, from[2] = {0, 0}, whole[2] = {10, 10};
        EQUAL(omp_target_memcpy_rect_async(two, one, sizeof *data, 2, lengths, to, from, whole, whole, here, here, 2, objects), 0);
        lengths[0] = to[0] = whole[1] = 77;
#pragma omp taskwait depend(in : two[0])
        EQUAL(two[99], round * 87);
    }
    EQUAL(omp_target_memcpy_async(one, data, 100 * sizeof *data, 0, 0, here, here, 0, NULL), 0);
#pragma omp taskwait
    EQUAL(one[99], 50 * 99);
#pragma omp depobj(objects[0]) destroy
#pragma omp depobj(objects[1]) destroy
    free(data);
}

static void memory(void) {
    omp_alloctrait_t traits[] = {{omp_atk_alignment, 256}, {omp_atk_pool_size, 8192}, {omp_atk_fallback, omp_atv_null_fb}};
    omp_allocator_handle_t pool = omp_init_allocator(omp_default_mem_space, 3, traits);
    CHECK(pool != omp_null_allocator);
    char *one = omp_alloc(4000, pool);
    CHECK(one && (uintptr_t)one % 256 == 0);
    CHECK(omp_alloc(5000, pool) == NULL);
    memset(one, 1, 4000);
    omp_free(one, pool);
    char *two = omp_calloc(10, 100, pool);
    CHECK(two && two[999] == 0);
    two[9] = 9;
    two = omp_realloc(two, 2000, pool, pool);
    CHECK(two && two[9] == 9);
    omp_free(two, omp_null_allocator);
    omp_destroy_allocator(pool);
    int shared = 0;
    (void)shared;
#pragma omp parallel num_threads(2) private(shared) allocate(omp_high_bw_mem_alloc : shared)
    shared = 1;
    EQUAL(omp_get_default_allocator(), omp_default_mem_alloc);
}

int main(void) {
    target();
    asynchronous();
    memory();
    char text[64];
    omp_set_affinity_format("%0.4n of %N at %L");
    EQUAL(omp_get_affinity_format(text, sizeof text), 17);
    EQUAL(omp_capture_affinity(text, sizeof text, NULL), 14);
    CHECK(strcmp(text, "0000 of 1 at 0") == 0);
    double before = omp_get_wtime();
    CHECK(before > 0 && omp_get_wtime() >= before && omp_get_wtick() > 0);
    CHECK(omp_get_num_procs() > 0 && omp_get_supported_active_levels() > 1);
    EQUAL(omp_in_final(), 0);
    EQUAL(omp_pause_resource_all(omp_pause_soft), 0);
    puts("host: right");
    return 0;
}
