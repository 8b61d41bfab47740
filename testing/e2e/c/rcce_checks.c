/* Calls of RCCE and iRCCE, each with its result checked; run by ranks on any nodes. Ends with "all as it should be". */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iRCCE.h>

/* Numbers that ranks of both byte orders read. Boards have no <arpa/inet.h>. */
static uint32_t big_endian(uint32_t number) {
    unsigned char bytes[4] = {number >> 24, number >> 16, number >> 8, number};
    memcpy(&number, bytes, 4);
    return number;
}

static int own, ranks;

#define CHECK(condition)                                                                                   \
    do {                                                                                                   \
        if (!(condition)) {                                                                                \
            printf("rank %d, line %d: %s\n", own, __LINE__, #condition);                                   \
            fflush(stdout);                                                                                \
            exit(1);                                                                                       \
        }                                                                                                  \
    } while (0)

static void barrier(void) { CHECK(RCCE_barrier(&RCCE_COMM_WORLD) == RCCE_SUCCESS); }

static void fill(char *bytes, size_t size, int seed) {
    for (size_t i = 0; i < size; i++) bytes[i] = (char)(i * 31 + (size_t)seed);
}

static int is_filled(const char *bytes, size_t size, int seed) {
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != (char)(i * 31 + (size_t)seed)) return 0;
    return 1;
}

static void put_get_and_flags(void) {
    int next = (own + 1) % ranks, before = (own + ranks - 1) % ranks, value = 7;
    char source[192], target[192];
    t_vcharp room = RCCE_malloc(192);
    RCCE_FLAG flag, other;
    CHECK(room != NULL && RCCE_flag_alloc(&flag) == 0 && RCCE_flag_alloc(&other) == 0);
    CHECK(RCCE_flag_read(flag, &value, own) == 0 && value == RCCE_FLAG_UNSET);
    barrier();
    fill(source, 192, own);
    CHECK(RCCE_put(room, (t_vcharp)source, 192, next) == 0);
    CHECK(RCCE_flag_write(&flag, RCCE_FLAG_SET, next) == 0);
    CHECK(RCCE_wait_until(flag, RCCE_FLAG_SET) == 0);
    CHECK(RCCE_get((t_vcharp)target, room, 192, own) == 0 && is_filled(target, 192, before));
    barrier();
    /* From another's buffer, and from one buffer to another. */
    CHECK(RCCE_get((t_vcharp)target, room, 192, next) == 0 && is_filled(target, 192, own));
    barrier();
    CHECK(RCCE_get(room + 96, room, 96, next) == 0);
    CHECK(RCCE_get((t_vcharp)target, room + 96, 96, own) == 0 && is_filled(target, 96, own));
    CHECK(RCCE_test_flag(flag, RCCE_FLAG_SET, &value) == 0 && value == 1);
    CHECK(iRCCE_flag_write_tagged(&other, 5, next, "travels", 8) == 0);
    char tag[8];
    CHECK(iRCCE_wait_tagged(other, 5, tag, 8) == 0 && strcmp(tag, "travels") == 0);
    barrier();
    RCCE_free(room);
    CHECK(RCCE_flag_free(&flag) == 0 && flag == NULL && RCCE_flag_free(&other) == 0);
    barrier();
}

static void messages(void) {
    static const size_t sizes[] = {0, 1, 48, 49, 4096, 4097, 8192, 100001};
    int next = (own + 1) % ranks, before = (own + ranks - 1) % ranks;
    char *sent = malloc(100001), *received = malloc(100001);
    iRCCE_SEND_REQUEST send;
    iRCCE_RECV_REQUEST receive;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        fill(sent, sizes[i], own + (int)i);
        memset(received, 0, sizes[i]);
        CHECK(iRCCE_isend(sent, (ssize_t)sizes[i], next, &send) <= 0);
        CHECK(iRCCE_irecv(received, (ssize_t)sizes[i], before, &receive) <= 0);
        CHECK(iRCCE_irecv_wait(&receive) == 0 && iRCCE_isend_wait(&send) == 0);
        CHECK(is_filled(received, sizes[i], before + (int)i));
        CHECK(iRCCE_get_source(&receive) == before && iRCCE_get_dest(&send) == next);
        CHECK(iRCCE_get_size(NULL, &receive) == (int)sizes[i]);
    }
    barrier();
    /* To rank 0 from all, which takes them as they come, of whatever length. */
    if (own == 0) {
        int seen = 0, found = -1;
        for (int i = 1; i < ranks; i++) {
            CHECK(iRCCE_probe(iRCCE_ANY_SOURCE, &found) == 0 && found > 0);
            CHECK(iRCCE_recv(received, iRCCE_ANY_LENGTH, iRCCE_ANY_SOURCE) == 0);
            int source = iRCCE_get_source(NULL), length = iRCCE_get_length();
            CHECK(source > 0 && length == 1000 * source && is_filled(received, (size_t)length, source));
            seen += source;
        }
        CHECK(seen == ranks * (ranks - 1) / 2);
        CHECK(iRCCE_iprobe(iRCCE_ANY_SOURCE, &found, &seen) == 0 && seen == 0);
    } else {
        fill(sent, (size_t)(1000 * own), own);
        CHECK(iRCCE_send(sent, 1000 * own, 0) == 0);
    }
    free(sent);
    free(received);
    barrier();
}

static void request_lists(void) {
    iRCCE_SEND_REQUEST send[8];
    iRCCE_RECV_REQUEST receive[8], never;
    iRCCE_WAIT_LIST list;
    int out[8], in[8], flag = 0, other = (own + ranks / 2) % ranks, from = (own + ranks - ranks / 2) % ranks;
    iRCCE_init_wait_list(&list);
    for (int i = 0; i < 8; i++) {
        out[i] = (int)big_endian((uint32_t)(own * 100 + i));
        CHECK(iRCCE_irecv((char *)&in[i], 4, from, &receive[i]) <= 0);
        CHECK(iRCCE_isend((char *)&out[i], 4, other, &send[i]) <= 0);
        iRCCE_add_to_wait_list(&list, &send[i], &receive[i]);
    }
    for (int taken = 0; taken < 4; taken++) {
        iRCCE_SEND_REQUEST *sent = NULL;
        iRCCE_RECV_REQUEST *received = NULL;
        CHECK(iRCCE_wait_any(&list, &sent, &received) == 0 && (sent != NULL) != (received != NULL));
    }
    CHECK(iRCCE_wait_all(&list) == 0 && list.first == NULL && iRCCE_test_all(&list, &flag) == 0 && flag == 1);
    for (int i = 0; i < 8; i++) CHECK((int)big_endian((uint32_t)in[i]) == from * 100 + i);
    CHECK(iRCCE_irecv((char *)in, 4, other, &never) == iRCCE_PENDING);
    CHECK(iRCCE_irecv_test(&never, &flag) == iRCCE_PENDING && flag == 0);
    CHECK(iRCCE_irecv_cancel(&never, &flag) == 0 && flag == 1);
    CHECK(iRCCE_irecv_cancel(&never, &flag) == iRCCE_NOT_ENQUEUED && flag == 0);
    barrier();
}

static int parity(int ue, void *argument) { return ue % *(int *)argument; }

static void collectives(void) {
    RCCE_COMM part;
    int two = 2, size = 0, rank = -1;
    CHECK(RCCE_comm_split(parity, &two, &part) == 0);
    CHECK(RCCE_comm_size(part, &size) == 0 && size == (ranks + 1 - own % 2) / 2);
    CHECK(RCCE_comm_rank(part, &rank) == 0 && rank == own / 2);
    char bytes[5000];
    for (int root = 0; root < ranks; root++) {
        if (own == root) fill(bytes, sizeof bytes, root);
        CHECK(RCCE_bcast(bytes, sizeof bytes, root, RCCE_COMM_WORLD) == 0 && is_filled(bytes, sizeof bytes, root));
    }
    if (rank == 0) fill(bytes, 40, own);
    CHECK(RCCE_bcast(bytes, 40, 0, part) == 0 && is_filled(bytes, 40, own % 2));
    int ints[3] = {own, -own, 1}, sums[3] = {0, 0, 0};
    CHECK(RCCE_allreduce((char *)ints, (char *)sums, 3, RCCE_INT, RCCE_SUM, RCCE_COMM_WORLD) == 0);
    CHECK(sums[0] == ranks * (ranks - 1) / 2 && sums[1] == -sums[0] && sums[2] == ranks);
    double number = 0.5 + own, least = -1;
    CHECK(RCCE_reduce((char *)&number, (char *)&least, 1, RCCE_DOUBLE, RCCE_MIN, ranks - 1, RCCE_COMM_WORLD) == 0);
    CHECK(least == (own == ranks - 1 ? 0.5 : -1.0));
    long product = 2;
    CHECK(RCCE_allreduce((char *)&product, (char *)&product, 1, RCCE_LONG, RCCE_PROD, part) == 0);
    CHECK(product == 1L << size);
    float largest = (float)own;
    CHECK(RCCE_allreduce((char *)&largest, (char *)&largest, 1, RCCE_FLOAT, RCCE_MAX, RCCE_COMM_WORLD) == 0);
    CHECK(largest == (float)(ranks - 1));
    CHECK(RCCE_barrier(&part) == 0 && RCCE_comm_free(&part) == 0);
    CHECK(RCCE_barrier(&part) == RCCE_ERROR_COMM_UNDEFINED);
    barrier();
}

/* Counts under a lock in shared memory. */
static void shared_memory(void) {
    volatile uint32_t *count = (volatile uint32_t *)RCCE_shmalloc(64);
    CHECK(count != NULL);
    for (int i = 0; i < 10; i++) {
        CHECK(RCCE_acquire_lock(ranks - 1) == 0);
        RCCE_shflush();
        *count = big_endian(big_endian(*count) + 1);
        RCCE_shflush();
        CHECK(RCCE_release_lock(ranks - 1) == 0);
    }
    barrier();
    RCCE_shflush();
    CHECK(big_endian(*count) == (uint32_t)(10 * ranks));
    barrier();
    RCCE_shfree((t_vcharp)count);
    barrier();
}

/* Mistakes, of which each call tells. */
static void mistakes(void) {
    char bytes[64], text[RCCE_MAX_ERROR_STRING];
    int length = 0, value = 0;
    t_vcharp room = RCCE_malloc(128);
    RCCE_FLAG flag, stale, none = NULL;
    CHECK(room != NULL && RCCE_flag_alloc(&flag) == 0);
    CHECK(RCCE_malloc(RCCE_BUFF_SIZE_MAX) == NULL);
    CHECK(RCCE_put(room, (t_vcharp)bytes, 64, ranks) == RCCE_ERROR_ID);
    CHECK(RCCE_put((t_vcharp)bytes, room, 64, 0) == RCCE_ERROR_TARGET);
    CHECK(RCCE_get((t_vcharp)bytes, (t_vcharp)bytes, 64, 0) == RCCE_ERROR_SOURCE);
    CHECK(RCCE_put(room, (t_vcharp)bytes, 33, 0) == RCCE_ERROR_MESSAGE_LENGTH);
    CHECK(RCCE_put(room, (t_vcharp)bytes, 2 * RCCE_BUFF_SIZE_MAX, 0) == RCCE_ERROR_MESSAGE_LENGTH);
    CHECK(RCCE_put(room + 1, (t_vcharp)bytes, 32, 0) == RCCE_ERROR_ALIGNMENT);
    CHECK(RCCE_put(room + 32, room, 64, own) == RCCE_ERROR_DATA_OVERLAP);
    CHECK(RCCE_flag_write(&none, RCCE_FLAG_SET, 0) == RCCE_ERROR_FLAG_UNDEFINED);
    CHECK(RCCE_flag_write(&flag, 2, 0) == RCCE_ERROR_FLAG_STATUS_UNDEFINED);
    CHECK(RCCE_flag_read((RCCE_FLAG)&value, &value, 0) == RCCE_ERROR_FLAG_NOT_IN_COMM_BUFFER);
    CHECK(RCCE_flag_read(flag, NULL, 0) == RCCE_ERROR_VAL_UNDEFINED);
    stale = flag;
    CHECK(RCCE_flag_free(&flag) == 0);
    CHECK(RCCE_flag_write(&stale, RCCE_FLAG_SET, 0) == RCCE_ERROR_FLAG_NOT_ALLOCATED);
    CHECK(RCCE_send(bytes, 64, -1) == RCCE_ERROR_ID && RCCE_recv(bytes, 64, ranks) == RCCE_ERROR_ID);
    CHECK(RCCE_send(bytes, 64, own) == RCCE_ERROR_ID);
    CHECK(RCCE_bcast(bytes, 64, ranks, RCCE_COMM_WORLD) == RCCE_ERROR_ID);
    CHECK(RCCE_allreduce(bytes, bytes, 1, 0, RCCE_SUM, RCCE_COMM_WORLD) == RCCE_ERROR_ILLEGAL_TYPE);
    CHECK(RCCE_allreduce(bytes, bytes, 1, RCCE_INT, 0, RCCE_COMM_WORLD) == RCCE_ERROR_ILLEGAL_OP);
    CHECK(RCCE_release_lock(0) == RCCE_ERROR);
    CHECK(RCCE_debug_set(RCCE_DEBUG_ALL) == 0 && RCCE_debug_unset(3) == RCCE_ERROR_DEBUG_FLAG);
    CHECK(RCCE_power_domain() == RCCE_ERROR_NO_POWER_MANAGEMENT);
    CHECK(RCCE_error_string(RCCE_ERROR_NO_POWER_MANAGEMENT, text, &length) == 0);
    CHECK(strstr(text, "power management") != NULL && length == (int)strlen(text));
    CHECK(RCCE_error_string(17, text, &length) == RCCE_ERROR_INVALID_ERROR_CODE);
    RCCE_free(room);
    barrier();
}

int RCCE_APP(int argc, char **argv) {
    CHECK(RCCE_ue() == -1);
    CHECK(RCCE_init(&argc, &argv) == RCCE_SUCCESS && iRCCE_init() == iRCCE_SUCCESS);
    own = RCCE_ue(), ranks = RCCE_num_ues();
    put_get_and_flags();
    messages();
    request_lists();
    collectives();
    shared_memory();
    mistakes();
    CHECK(RCCE_finalize() == RCCE_SUCCESS);
    CHECK(RCCE_barrier(&RCCE_COMM_WORLD) == RCCE_ERROR);
    printf("rank %d: all as it should be\n", own);
    return 0;
}
