/* Regions and data for devices, on a job that has some: each is another node. Words: `share` or `copy`, whether devices have a copy
   of everything; then the number of devices. */
#define _GNU_SOURCE
#include <errno.h>
#include <omp.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <tombolo_omp.h>
#include "check.h"

#ifdef __aarch64__
#define HERE 2
#else
#define HERE 1
#endif

static int copies, devices;
static int table[1000];
static struct list { int count; int unused; double *values; struct list *next; } lists[2];

static int where_it_runs(int device) {
    int isa = 0, threads = 0, inside = 0, here = -1, level = -1, initial = -1;
#pragma omp target device(device) map(from : isa, threads, here, level, initial) map(tofrom : inside)
    {
        isa = HERE;
        here = omp_get_device_num();
        initial = omp_is_initial_device();
        level = omp_get_level();
#pragma omp parallel num_threads(3) reduction(+ : inside)
        {
            inside += HERE;
#pragma omp single
            threads = omp_get_num_threads();
        }
    }
    EQUAL(level, 0);
    EQUAL(initial, device == devices);
    EQUAL(here, device);
    EQUAL(threads, 3);
    /* All threads of a team are on the device; on the host a team has threads of all nodes. */
    if (device < devices) EQUAL(inside, 3 * isa);
    return isa;
}

static void places(void) {
    EQUAL(omp_get_num_devices(), devices);
    EQUAL(omp_get_initial_device(), devices);
    CHECK(omp_is_initial_device());
    EQUAL(omp_get_device_num(), devices);
    EQUAL(where_it_runs(devices), 1);
    for (int device = 0; device < devices; device++) EQUAL(where_it_runs(device), 2);
    int here = 0;
#pragma omp target device(0) if (devices > 100) map(from : here)
    here = omp_is_initial_device();
    EQUAL(here, 1);
    omp_set_default_device(devices);
#pragma omp target map(from : here)
    here = omp_is_initial_device();
    EQUAL(here, 1);
    omp_set_default_device(0);
}

static void loops(void) {
    int sum = 0, teams = 0, copied = 5;
    for (int at = 0; at < 1000; at++) table[at] = at;
#pragma omp target teams distribute parallel for num_teams(2) map(tofrom : table, sum) reduction(+ : sum)
    for (int at = 0; at < 1000; at++) {
        table[at]++;
        sum += at;
    }
    EQUAL(sum, 499500);
    for (int at = 0; at < 1000; at++) EQUAL(table[at], at + 1);
#pragma omp target teams num_teams(3) map(tofrom : teams)
    teams += omp_get_num_teams();
    EQUAL(teams, 9);
    /* All threads of a team know which it is. */
    int wrong = 0;
#pragma omp target teams num_teams(3) map(tofrom : wrong)
    {
        int number = omp_get_team_num();
#pragma omp parallel num_threads(3) reduction(+ : wrong)
        wrong += omp_get_team_num() != number || omp_get_num_teams() != 3;
    }
    EQUAL(wrong, 0);
#pragma omp target firstprivate(copied) map(tofrom : sum)
    sum = copied++;
    EQUAL(sum, 5);
    EQUAL(copied, 5);
    /* A part of an array. */
#pragma omp target map(tofrom : table[10:5])
    for (int at = 10; at < 15; at++) table[at] = -at;
    EQUAL(table[9], 10);
    EQUAL(table[12], -12);
    EQUAL(table[15], 16);
}

static void presence(void) {
    int data[100], seen = 0;
    memset(data, 0, sizeof data);
#pragma omp target data map(tofrom : data)
    {
        CHECK(omp_target_is_present(data, 0));
        data[1] = 1;
#pragma omp target map(tofrom : data) map(from : seen)
        {
            seen = data[1];
            data[2] = 2;
        }
        /* What is there already neither goes nor comes. */
        EQUAL(seen, copies ? 0 : 1);
        EQUAL(data[2], copies ? 0 : 2);
#pragma omp target update from(data[2:1])
        EQUAL(data[2], 2);
#pragma omp target update to(data[1:1])
#pragma omp target map(always, from : data) map(from : seen)
        {
            seen = data[1];
            data[3] = 3;
        }
        EQUAL(seen, 1);
        EQUAL(data[3], 3);
    }
    EQUAL(omp_target_is_present(data, 0), !copies);
    /* Held twice, given up twice. */
    int *heap = malloc(1000 * sizeof *heap);
    for (int at = 0; at < 1000; at++) heap[at] = at;
#pragma omp target enter data map(to : heap[0:1000])
#pragma omp target enter data map(to : heap[100:50])
#pragma omp target
    for (int at = 0; at < 1000; at++) heap[at] *= 2;
#pragma omp target exit data map(from : heap[0:1000])
    EQUAL(heap[10], copies ? 10 : 20);
#pragma omp target exit data map(from : heap[0:1000])
    EQUAL(heap[10], 20);
    EQUAL(omp_target_is_present(heap, 0), !copies);
#pragma omp target enter data map(to : heap[0:1000])
#pragma omp target enter data map(to : heap[0:1000])
#pragma omp target exit data map(delete : heap[0:1000])
    EQUAL(omp_target_is_present(heap, 0), !copies);
    free(heap);
}

static void pointers(void) {
    double numbers[8] = {0, 1, 2, 3, 4, 5, 6, 7}, *values = numbers;
    lists[0] = (struct list){8, 1, values, &lists[1]};
    lists[1].count = 3;
    double sum = 0;
#pragma omp target enter data map(to : lists)
#pragma omp target enter data map(to : lists[0].values[0:8])
#pragma omp target map(tofrom : sum)
    {
        for (int at = 0; at < lists[0].count; at++) sum += lists[0].values[at];
        lists[0].values[3] = 30;
        lists[0].unused = 9;
    }
    EQUAL(sum, 28);
#pragma omp target update from(lists[0])
    /* A pointer that points to what the device has does not come back. */
    CHECK(lists[0].values == values);
    EQUAL(lists[0].unused, 9);
#pragma omp target exit data map(from : lists[0].values[0:8])
#pragma omp target exit data map(from : lists)
    CHECK(lists[0].values == values);
    EQUAL(numbers[3], 30);
    struct list *one = malloc(sizeof *one);
    *one = (struct list){2, 3, malloc(16), NULL};
    one->values[0] = 1;
    one->values[1] = 2;
#pragma omp target map(tofrom : one->count, one->unused) map(tofrom : one->values[0:2])
    {
        one->count += one->unused;
    }
    EQUAL(one->count, 5);
    free(one->values);
    free(one);
}

static void memory(void) {
    int *there = omp_target_alloc(100 * sizeof *there, 0), here[100], back[100], sum = 0;
    CHECK(there != NULL);
    for (int at = 0; at < 100; at++) here[at] = at;
    int host = omp_get_initial_device();
    EQUAL(omp_target_memcpy(there, here, sizeof here, 0, 0, 0, host), 0);
#pragma omp target is_device_ptr(there) map(tofrom : sum)
    for (int at = 0; at < 100; at++) {
        sum += there[at];
        there[at] *= 3;
    }
    EQUAL(sum, 4950);
    EQUAL(omp_target_memcpy(back, there, sizeof back, 0, 0, host, 0), 0);
    EQUAL(back[33], 99);
    size_t lengths[2] = {2, 3}, to[2] = {0, 1}, from[2] = {1, 2}, whole[2] = {10, 10};
    EQUAL(omp_target_memcpy_rect(here, there, sizeof(int), 2, lengths, to, from, whole, whole, host, 0), 0);
    EQUAL(here[1], 36);
    EQUAL(here[13], 72);
    EQUAL(here[14], 14);
    if (devices > 1) {
        int *other = omp_target_alloc(100 * sizeof *other, 1);
        EQUAL(omp_target_memcpy(other, there, sizeof back, 0, 0, 1, 0), 0);
#pragma omp target device(1) is_device_ptr(other) map(tofrom : sum)
        sum = other[10];
        EQUAL(sum, 30);
        omp_target_free(other, 1);
    }
    /* What the program says where it is. */
    EQUAL(omp_target_associate_ptr(here, there, sizeof here, 0, 0), 0);
    EQUAL(omp_target_associate_ptr(here + 50, there, sizeof here, 0, 0), EINVAL);
    CHECK(omp_target_is_present(here, 0));
#pragma omp target map(tofrom : here, sum)
    sum = here[20];
    EQUAL(sum, 60);
    EQUAL(omp_target_disassociate_ptr(here, 0), 0);
    EQUAL(omp_target_disassociate_ptr(here, 0), EINVAL);
    omp_target_free(there, 0);
    CHECK(omp_target_alloc((size_t)1 << 60, 0) == NULL);
    CHECK(omp_target_alloc(8, 77) == NULL);
    EQUAL(omp_target_memcpy(back, here, 8, 0, 0, 77, host), EINVAL);
}

/* Copies by tasks, in the order that their dependences say: each stage needs what the one before it copied. */
static void asynchronous(void) {
    int host = omp_get_initial_device(), last = devices - 1;
    int *there = omp_target_alloc(100 * sizeof *there, 0), *other = omp_target_alloc(100 * sizeof *other, last);
    int *here = malloc(100 * sizeof *here), back[100] = {0}, zero[100] = {0};
    omp_depend_t of_there, of_other, reads;
#pragma omp depobj(of_there) depend(inout : there[0])
#pragma omp depobj(of_other) depend(inout : other[0])
#pragma omp depobj(reads) depend(in : there[0])
    omp_depend_t both[2] = {of_there, of_other};
    EQUAL(omp_target_memcpy(there, zero, sizeof zero, 0, 0, 0, host), 0);
    EQUAL(omp_target_memcpy(other, zero, sizeof zero, 0, 0, last, host), 0);
#pragma omp parallel num_threads(3)
#pragma omp single
    for (int round = 1; round <= 20; round++) {
#pragma omp task depend(inout : there[0]) firstprivate(round)
        for (int at = 0; at < 100; at++) here[at] = round * at;
        EQUAL(omp_target_memcpy_async(there, here, 100 * sizeof *here, 0, 0, 0, host, 1, &of_there), 0);
        EQUAL(omp_target_memcpy_async(other, there, 100 * sizeof *here, 0, 0, last, 0, 2, both), 0);
        /* The first half of both dimensions, doubled by the device meanwhile. */
#pragma omp target nowait is_device_ptr(other) device(last) depend(inout : other[0])
        for (int at = 0; at < 100; at++) other[at] *= 2;
        size_t lengths[2] = {5, 5}, none[2] = {0, 0}, whole[2] = {10, 10};
        EQUAL(omp_target_memcpy_rect_async(back, other, sizeof(int), 2, lengths, none, none, whole, whole, host, last, 1,
                                           &of_other), 0);
        /* The task keeps what it was told. */
        lengths[0] = lengths[1] = whole[0] = whole[1] = 77;
#pragma omp taskwait depend(depobj : of_other)
        EQUAL(back[44], 2 * 44 * round);
        EQUAL(back[5], 0);
        EQUAL(back[50], 0);
    }
    EQUAL(omp_target_memcpy_async(back, there, sizeof back, 0, 0, host, 0, 1, &reads), 0);
    EQUAL(omp_target_memcpy_async(zero, there, sizeof back, 0, 0, host, 0, 1, &reads), 0);
#pragma omp taskwait
    EQUAL(back[99], 20 * 99);
    EQUAL(zero[99], 20 * 99);
    EQUAL(omp_target_memcpy_async(back, there, 0, 0, 0, host, 77, 0, NULL), EINVAL);
    EQUAL(omp_target_memcpy_rect_async(back, there, 1, 0, NULL, NULL, NULL, NULL, NULL, host, 0, 0, NULL), EINVAL);
    CHECK(omp_target_memcpy_rect_async(NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, host, 0, 0, NULL) >= 3);
    /* Memory that only this process has, there and back. */
    int *own = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED);
    for (int at = 0; at < 100; at++) own[at] = -at;
#pragma omp parallel num_threads(3)
#pragma omp master
    {
        EQUAL(omp_target_memcpy_async(there, own, 100 * sizeof *own, 0, 0, 0, host, 1, &of_there), 0);
        EQUAL(omp_target_memcpy_async(own, there, 50 * sizeof *own, 50 * sizeof *own, 0, host, 0, 1, &of_there), 0);
    }
    EQUAL(own[99], -49);
    /* What devices reach, and where they have it. */
    EQUAL(omp_target_is_accessible(here, 100 * sizeof *here, 0), !copies);
    EQUAL(omp_target_is_accessible(own, 4096, 0), 0);
    EQUAL(omp_target_is_accessible(here, (size_t)-1, 0), 0);
    EQUAL(omp_target_is_accessible(here, 8, 77), 0);
    CHECK(omp_target_is_accessible(own, 4096, host));
    CHECK(omp_get_mapped_ptr(own, host) == own);
    CHECK(omp_get_mapped_ptr(own, 0) == NULL);
    CHECK(omp_get_mapped_ptr(here, 0) == (copies ? NULL : here));
    EQUAL(omp_target_associate_ptr(own, there, 100 * sizeof *own, 0, 0), 0);
    CHECK(omp_get_mapped_ptr(own + 3, 0) == there + 3);
    EQUAL(omp_target_disassociate_ptr(own, 0), 0);
    munmap(own, 4096);
    free(here);
    omp_target_free(other, last);
    omp_target_free(there, 0);
#pragma omp depobj(of_there) destroy
#pragma omp depobj(of_other) destroy
#pragma omp depobj(reads) destroy
}

/* What the program maps itself is not shared, so it is copied, whatever is said of other memory. */
static void private_memory(void) {
    size_t bytes = 3 << 20;
    int *own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED);
    int count = (int)(bytes / sizeof *own), sum = 0;
    for (int at = 0; at < count; at++) own[at] = 1;
    CHECK(!omp_target_is_present(own, 0));
#pragma omp target data map(tofrom : own[0:count])
    {
        int *device = NULL;
#pragma omp target data use_device_ptr(own)
        device = own;
        CHECK(device != own);
#pragma omp target map(tofrom : sum)
        for (int at = 0; at < count; at++) {
            sum += own[at];
            own[at] = 2;
        }
        EQUAL(own[5], 1);
    }
    EQUAL(sum, count);
    for (int at = 0; at < count; at++) EQUAL(own[at], 2);
    munmap(own, bytes);
}

static void later(void) {
    int value[4] = {0}, order = 0;
    for (int at = 0; at < 4; at++) {
#pragma omp target nowait map(tofrom : value[at:1]) device(at % devices)
        value[at] = at + 1;
    }
#pragma omp taskwait
    for (int at = 0; at < 4; at++) EQUAL(value[at], at + 1);
#pragma omp target nowait map(tofrom : order) depend(out : order)
    order = order * 10 + 1;
#pragma omp target nowait map(tofrom : order) depend(inout : order)
    order = order * 10 + 2;
#pragma omp task depend(inout : order) shared(order)
    order = order * 10 + 3;
#pragma omp target map(tofrom : order) depend(inout : order)
    order = order * 10 + 4;
    EQUAL(order, 1234);
#pragma omp target nowait map(tofrom : order) depend(inout : order)
    order++;
#pragma omp taskwait
    EQUAL(order, 1235);
    int sum = 0;
#pragma omp parallel num_threads(3)
    {
        int mine = omp_get_thread_num() + 1;
#pragma omp target map(tofrom : mine)
        mine *= 10;
#pragma omp atomic
        sum += mine;
    }
    EQUAL(sum, 60);
}

int main(int count, char **words) {
    copies = count > 1 && strcmp(words[1], "copy") == 0;
    devices = count > 2 ? atoi(words[2]) : 1;
    places();
    loops();
    presence();
    pointers();
    memory();
    asynchronous();
    private_memory();
    later();
    puts("ok");
    return 0;
}
