/* The limit of an ordered ring between two processes, as a program: what a message costs without a channel around it.
 *
 * One ring each way of 64 slots of 64 bytes, the size of a cache line. A slot holds 48 bytes of payload, written by
 * stores of 16 bytes, and a control word, which is stored last with release order and says which message the slot holds
 * and how long it is. A message of 64 bytes takes two slots: the second is filled first, and the control word of the
 * first publishes both. The receiver gives room back by the half of a ring, and prefetches the second slot of two.
 * Prefetching slots ahead was slower wherever it caught up with the sender (ADR 0022).
 *
 * Two processes run this program on the same memory: `ring near MEMORY` leads and looks at the clock, `ring far MEMORY`
 * follows. Each reads commands from its standard input and answers each by a line on its standard output:
 *
 *   trips BYTES WARM CYCLES            round trips: WARM that do not count, then CYCLES times 16 timed as one and 16
 *                                      timed singly
 *   stream BYTES BATCH WARM MESSAGES   messages from near to far, BATCH published together
 *   answer                             "done ELAPSED_NS WAITED_NS", or "failed: REASON"
 *
 * The near side's answer to `trips` is followed by 17 times CYCLES 32-bit times in nanoseconds. WAITED_NS is the time
 * that this process has been ready to run while something else ran.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define SLOTS 64
#define PAYLOAD_WORDS 6
#define CYCLE 16
#define PATIENCE_NS 10000000000ull
#define POLLS_PER_LOOK (1u << 16)

#define NOINLINE static __attribute__((noinline))
#define INLINE static inline __attribute__((always_inline))

/* Two words, as the processor moves them at once. */
#if defined(__SSE2__)
typedef __m128i pair;
INLINE pair pair_of(uint64_t low, uint64_t high) { return _mm_set_epi64x((long long)high, (long long)low); }
INLINE pair pair_add(pair a, pair b) { return _mm_add_epi64(a, b); }
INLINE pair pair_or(pair a, pair b) { return _mm_or_si128(a, b); }
INLINE pair pair_xor(pair a, pair b) { return _mm_xor_si128(a, b); }
INLINE int pair_is_zero(pair a) { return _mm_movemask_epi8(_mm_cmpeq_epi32(a, _mm_setzero_si128())) == 0xffff; }
INLINE void pair_store(uint64_t *to, pair value) { _mm_store_si128((__m128i *)to, value); }
INLINE pair pair_load(const uint64_t *from) { return _mm_load_si128((const __m128i *)from); }
#elif defined(__aarch64__)
typedef uint64x2_t pair;
INLINE pair pair_of(uint64_t low, uint64_t high) { return vcombine_u64(vcreate_u64(low), vcreate_u64(high)); }
INLINE pair pair_add(pair a, pair b) { return vaddq_u64(a, b); }
INLINE pair pair_or(pair a, pair b) { return vorrq_u64(a, b); }
INLINE pair pair_xor(pair a, pair b) { return veorq_u64(a, b); }
INLINE int pair_is_zero(pair a) { return (vgetq_lane_u64(a, 0) | vgetq_lane_u64(a, 1)) == 0; }
INLINE void pair_store(uint64_t *to, pair value) { vst1q_u64(to, value); }
INLINE pair pair_load(const uint64_t *from) { return vld1q_u64(from); }
#else
typedef struct { uint64_t low, high; } pair;
INLINE pair pair_of(uint64_t low, uint64_t high) { return (pair){low, high}; }
INLINE pair pair_add(pair a, pair b) { return (pair){a.low + b.low, a.high + b.high}; }
INLINE pair pair_or(pair a, pair b) { return (pair){a.low | b.low, a.high | b.high}; }
INLINE pair pair_xor(pair a, pair b) { return (pair){a.low ^ b.low, a.high ^ b.high}; }
INLINE int pair_is_zero(pair a) { return (a.low | a.high) == 0; }
INLINE void pair_store(uint64_t *to, pair value) { to[0] = value.low; to[1] = value.high; }
INLINE pair pair_load(const uint64_t *from) { return (pair){from[0], from[1]}; }
#endif

/* A cache line. `spare` keeps the control word last. */
struct slot {
    uint64_t payload[PAYLOAD_WORDS];
    uint64_t spare;
    uint64_t control;
} __attribute__((aligned(64)));

/* One way. Lines with different writers are 128 bytes apart, for processors fetch them in pairs. */
struct ring {
    uint64_t taken;
    uint64_t apart[15];
    struct slot slots[SLOTS];
} __attribute__((aligned(128)));

struct sender {
    struct ring *ring;
    uint64_t position, limit;
};

struct receiver {
    struct ring *ring;
    uint64_t position, credited;
};

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static uint64_t waited_ns(void) {
    unsigned long long ran = 0, waited = 0;
    FILE *file = fopen("/proc/self/schedstat", "r");
    if (file) {
        if (fscanf(file, "%llu %llu", &ran, &waited) != 2) waited = 0;
        fclose(file);
    }
    return waited;
}

static _Noreturn void fail(const char *why) {
    printf("failed: %s\n", why);
    fflush(stdout);
    exit(1);
}

/* Ends a wait that lasts too long, without looking at the clock at every poll. */
struct patience {
    uint32_t polls;
    uint64_t since_ns;
};

static __attribute__((cold, noinline)) void look(struct patience *patience) {
    uint64_t now = now_ns();
    if (!patience->since_ns) patience->since_ns = now;
    if (now - patience->since_ns > PATIENCE_NS) fail("the other side has not answered for 10 s");
}

/* A poll right after a poll takes the line away from a sender that is still filling it. */
INLINE void pause_a_little(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

INLINE void keep_patience(struct patience *patience) {
    pause_a_little();
    if (++patience->polls % POLLS_PER_LOOK == 0) look(patience);
}

/* Words `index` and the next of message `sequence`, as the comparison fills its messages. */
INLINE pair content(uint64_t sequence, uint64_t index) {
    const uint64_t step = 0x0101010101010101ull;
    return pair_add(pair_of(sequence, sequence), pair_of(index * step, (index + 1) * step));
}

INLINE struct slot *slot_at(struct ring *ring, uint64_t position) { return &ring->slots[position % SLOTS]; }

/* Which message the slot at a position holds, and how many bytes that message has. */
INLINE uint64_t control_of(uint64_t position, uint64_t bytes) { return (position + 1) << 8 | bytes; }

/* Slots that a message takes. */
INLINE uint64_t slots_of(uint64_t bytes) { return bytes > 8 * PAYLOAD_WORDS ? 2 : 1; }

INLINE void wait_for_room(struct sender *sender, uint64_t slots) {
    struct patience patience = {0, 0};
    while (sender->limit - sender->position < slots) {
        sender->limit = __atomic_load_n(&sender->ring->taken, __ATOMIC_ACQUIRE) + SLOTS;
        keep_patience(&patience);
    }
}

/* Writes a message but for the control word that publishes it. */
INLINE void fill(struct sender *sender, uint64_t position, uint64_t bytes, uint64_t sequence) {
    struct slot *first = slot_at(sender->ring, position);
    if (bytes > 8 * PAYLOAD_WORDS) {
        struct slot *second = slot_at(sender->ring, position + 1);
        pair_store(second->payload, content(sequence, PAYLOAD_WORDS));
    }
    for (uint64_t index = 0; index < PAYLOAD_WORDS; index += 2)
        pair_store(first->payload + index, content(sequence, index));
}

INLINE void publish(struct sender *sender, uint64_t position, uint64_t bytes, int order) {
    __atomic_store_n(&slot_at(sender->ring, position)->control, control_of(position, bytes), order);
}

INLINE void send(struct sender *sender, uint64_t bytes, uint64_t sequence) {
    uint64_t position = sender->position, slots = slots_of(bytes);
    wait_for_room(sender, slots);
    fill(sender, position, bytes, sequence);
    publish(sender, position, bytes, __ATOMIC_RELEASE);
    sender->position = position + slots;
}

/* Messages that become visible together: the first one's control word is stored last. */
INLINE void send_batch(struct sender *sender, uint64_t bytes, uint64_t first, uint64_t count) {
    uint64_t start = sender->position, slots = slots_of(bytes);
    while (count) {
        wait_for_room(sender, slots);
        uint64_t room = (sender->limit - sender->position) / slots, fitting = count < room ? count : room;
        uint64_t position = start;
        for (uint64_t index = 0; index < fitting; index++, position += slots) {
            fill(sender, position, bytes, first + index);
            if (index) publish(sender, position, bytes, __ATOMIC_RELAXED);
        }
        publish(sender, start, bytes, __ATOMIC_RELEASE);
        sender->position = start = position;
        first += fitting;
        count -= fitting;
    }
}

INLINE void receive(struct receiver *receiver, uint64_t bytes, uint64_t sequence) {
    uint64_t position = receiver->position, slots = slots_of(bytes), expected = control_of(position, bytes);
    struct slot *first = slot_at(receiver->ring, position), *second = slot_at(receiver->ring, position + 1);
    if (__atomic_load_n(&first->control, __ATOMIC_ACQUIRE) != expected) {
        struct patience patience = {0, 0};
        do {
            if (slots == 2) __builtin_prefetch(second);
            keep_patience(&patience);
        } while (__atomic_load_n(&first->control, __ATOMIC_ACQUIRE) != expected);
    }
    if (slots == 2) __builtin_prefetch(second);
    pair wrong = pair_of(0, 0);
    for (uint64_t index = 0; index < PAYLOAD_WORDS; index += 2)
        wrong = pair_or(wrong, pair_xor(pair_load(first->payload + index), content(sequence, index)));
    if (slots == 2) wrong = pair_or(wrong, pair_xor(pair_load(second->payload), content(sequence, PAYLOAD_WORDS)));
    if (!pair_is_zero(wrong)) fail("a message is not what was sent");
    position += slots;
    receiver->position = position;
    if (position - receiver->credited >= SLOTS / 2) {
        receiver->credited = position;
        __atomic_store_n(&receiver->ring->taken, position, __ATOMIC_RELEASE);
    }
}

struct side {
    struct sender sender;
    struct receiver receiver;
    int is_near;
};

INLINE uint64_t trips(struct side *side, uint64_t bytes, uint64_t warm, uint64_t cycles, uint32_t *times) {
    struct sender sender = side->sender;
    struct receiver receiver = side->receiver;
    uint64_t sequence = 0, start = now_ns();
    if (!side->is_near) {
        for (; sequence < warm + cycles * 2 * CYCLE; sequence++) {
            receive(&receiver, bytes, sequence);
            send(&sender, bytes, sequence);
        }
    } else {
        for (; sequence < warm; sequence++) {
            send(&sender, bytes, sequence);
            receive(&receiver, bytes, sequence);
        }
        for (uint64_t cycle = 0; cycle < cycles; cycle++) {
            for (int timed = 0; timed <= CYCLE; timed++) {
                uint64_t before = now_ns();
                for (int round = 0; round < (timed ? 1 : CYCLE); round++, sequence++) {
                    send(&sender, bytes, sequence);
                    receive(&receiver, bytes, sequence);
                }
                uint64_t took = now_ns() - before;
                *times++ = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
            }
        }
    }
    side->sender = sender;
    side->receiver = receiver;
    return now_ns() - start;
}

INLINE uint64_t stream(struct side *side, uint64_t bytes, uint64_t batch, uint64_t warm, uint64_t messages) {
    struct sender sender = side->sender;
    struct receiver receiver = side->receiver;
    uint64_t all = warm + messages, sequence = 0, start = now_ns();
    if (!side->is_near) {
        for (; sequence < warm; sequence++) receive(&receiver, bytes, sequence);
        start = now_ns();
        for (; sequence < all; sequence++) receive(&receiver, bytes, sequence);
    } else if (batch <= 1) {
        for (; sequence < all; sequence++) send(&sender, bytes, sequence);
    } else {
        for (uint64_t count; sequence < all; sequence += count) {
            count = batch < all - sequence ? batch : all - sequence;
            send_batch(&sender, bytes, sequence, count);
        }
    }
    uint64_t took = now_ns() - start;
    side->sender = sender;
    side->receiver = receiver;
    return took;
}

/* The loops, each made for one length. */
NOINLINE uint64_t trips_48(struct side *side, uint64_t warm, uint64_t cycles, uint32_t *times) {
    return trips(side, 48, warm, cycles, times);
}
NOINLINE uint64_t trips_64(struct side *side, uint64_t warm, uint64_t cycles, uint32_t *times) {
    return trips(side, 64, warm, cycles, times);
}
NOINLINE uint64_t stream_48(struct side *side, uint64_t batch, uint64_t warm, uint64_t messages) {
    return stream(side, 48, batch, warm, messages);
}
NOINLINE uint64_t stream_64(struct side *side, uint64_t batch, uint64_t warm, uint64_t messages) {
    return stream(side, 64, batch, warm, messages);
}

static void answer(uint64_t elapsed_ns) {
    printf("done %" PRIu64 " %" PRIu64 "\n", elapsed_ns, waited_ns());
}

static void serve(struct side *side) {
    char line[128], what[16];
    while (fgets(line, sizeof line, stdin)) {
        uint64_t bytes, a, b, c;
        int words = sscanf(line, "%15s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, what, &bytes, &a, &b, &c);
        if (words < 2 || (bytes != 48 && bytes != 64)) {
            fail("not a command");
        } else if (words == 4 && !strcmp(what, "trips")) {
            uint32_t *times = calloc(b ? b : 1, (CYCLE + 1) * sizeof *times);
            if (!times) fail("out of memory");
            answer(bytes == 48 ? trips_48(side, a, b, times) : trips_64(side, a, b, times));
            if (side->is_near) fwrite(times, (CYCLE + 1) * sizeof *times, b, stdout);
            free(times);
        } else if (words == 5 && !strcmp(what, "stream")) {
            answer(bytes == 48 ? stream_48(side, a, b, c) : stream_64(side, a, b, c));
        } else {
            fail("not a command");
        }
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    /* What started this ends it, also in the middle of a wait. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc != 3 || (strcmp(argv[1], "near") && strcmp(argv[1], "far"))) {
        fprintf(stderr, "usage: ring near|far MEMORY\n");
        return 2;
    }
    int file = open(argv[2], O_RDWR | O_CLOEXEC);
    if (file < 0) fail("cannot open the memory");
    struct ring *rings = mmap(NULL, 2 * sizeof *rings, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (rings == MAP_FAILED) fail("cannot map the memory");
    struct side side = {.is_near = !strcmp(argv[1], "near")};
    struct ring *out = &rings[side.is_near ? 0 : 1], *in = &rings[side.is_near ? 1 : 0];
    side.sender = (struct sender){out, 0, SLOTS};
    side.receiver = (struct receiver){in, 0, 0};
    serve(&side);
    return 0;
}
