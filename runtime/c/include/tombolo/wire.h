/*
 * Encoding and decoding of typed messages, for generated headers. docs/specs/interface.md specifies the format.
 *
 * Nothing here allocates, calls the library, or accesses memory outside of its arguments, for any input from a peer. Messages
 * are decoded from private memory, which does not change meanwhile. The first error of a reader or writer is sticky: all later
 * reads return zero, all later writes do nothing, and the caller checks once, at the end.
 */
#ifndef TOMBOLO_WIRE_H
#define TOMBOLO_WIRE_H

#include <string.h>

#include "../tombolo.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes before the body of a message. */
#define TOMBOLO_HEADER_BYTES UINT32_C(8)

/* UTF-8, not zero-terminated: print it with "%.*s", (int)text.length, text.data. */
typedef struct tombolo_text {
    const char *data;
    uint32_t length;
} tombolo_text;

/* Bytes. */
typedef struct tombolo_bytes {
    const uint8_t *data;
    uint32_t length;
} tombolo_bytes;

/* Types of lists and of optional values, as fields of messages. */
#define TOMBOLO_LIST(name, item) \
    typedef struct name {        \
        const item *items;       \
        uint32_t count;          \
    } name
#define TOMBOLO_OPTIONAL(name, value_) \
    typedef struct name {              \
        bool there;                    \
        value_;                        \
    } name

TOMBOLO_LIST(tombolo_list_bool, bool);
TOMBOLO_LIST(tombolo_list_u8, uint8_t);
TOMBOLO_LIST(tombolo_list_u16, uint16_t);
TOMBOLO_LIST(tombolo_list_u32, uint32_t);
TOMBOLO_LIST(tombolo_list_u64, uint64_t);
TOMBOLO_LIST(tombolo_list_i8, int8_t);
TOMBOLO_LIST(tombolo_list_i16, int16_t);
TOMBOLO_LIST(tombolo_list_i32, int32_t);
TOMBOLO_LIST(tombolo_list_i64, int64_t);
TOMBOLO_LIST(tombolo_list_f32, float);
TOMBOLO_LIST(tombolo_list_f64, double);
TOMBOLO_LIST(tombolo_list_text, tombolo_text);
TOMBOLO_LIST(tombolo_list_bytes, tombolo_bytes);
TOMBOLO_LIST(tombolo_list_domain, uint64_t);
TOMBOLO_LIST(tombolo_list_right, tombolo_right);

TOMBOLO_OPTIONAL(tombolo_optional_bool, bool value);
TOMBOLO_OPTIONAL(tombolo_optional_u8, uint8_t value);
TOMBOLO_OPTIONAL(tombolo_optional_u16, uint16_t value);
TOMBOLO_OPTIONAL(tombolo_optional_u32, uint32_t value);
TOMBOLO_OPTIONAL(tombolo_optional_u64, uint64_t value);
TOMBOLO_OPTIONAL(tombolo_optional_i8, int8_t value);
TOMBOLO_OPTIONAL(tombolo_optional_i16, int16_t value);
TOMBOLO_OPTIONAL(tombolo_optional_i32, int32_t value);
TOMBOLO_OPTIONAL(tombolo_optional_i64, int64_t value);
TOMBOLO_OPTIONAL(tombolo_optional_f32, float value);
TOMBOLO_OPTIONAL(tombolo_optional_f64, double value);
TOMBOLO_OPTIONAL(tombolo_optional_text, tombolo_text value);
TOMBOLO_OPTIONAL(tombolo_optional_bytes, tombolo_bytes value);
TOMBOLO_OPTIONAL(tombolo_optional_domain, uint64_t value);
TOMBOLO_OPTIONAL(tombolo_optional_right, tombolo_right value);

/* Returns `name` from the function if `value` is `known`. */
#define TOMBOLO_NAME(known, name) \
    do {                          \
        if (value == (known)) {   \
            return name;          \
        }                         \
    } while (0)

/* Returns a C string as text. */
static inline tombolo_text tombolo_text_of(const char *string)
{
    tombolo_text text;
    size_t length = string == NULL ? 0 : strlen(string);
    text.data = string;
    text.length = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
    return text;
}

/* Returns memory as bytes. */
static inline tombolo_bytes tombolo_bytes_of(const void *data, size_t length)
{
    tombolo_bytes bytes;
    bytes.data = (const uint8_t *)data;
    bytes.length = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
    return bytes;
}

/* Returns whether a text equals a C string. */
static inline bool tombolo_text_is(tombolo_text text, const char *string)
{
    size_t length = strlen(string);
    return text.length == length && (length == 0 || memcmp(text.data, string, length) == 0);
}

/* Rounds up to a multiple of eight. */
static inline uint32_t tombolo_round_up(uint32_t bytes)
{
    return (bytes + 7) & ~UINT32_C(7);
}

/* Returns whether bytes are UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. */
static inline bool tombolo_is_utf8(const uint8_t *bytes, size_t length)
{
    size_t at = 0;
    while (at < length) {
        const uint8_t first = bytes[at];
        size_t more;
        uint8_t low = 0x80, high = 0xbf;
        if (first < 0x80) {
            at++;
            continue;
        } else if (first >= 0xc2 && first <= 0xdf) {
            more = 1;
        } else if (first >= 0xe0 && first <= 0xef) {
            more = 2;
            low = first == 0xe0 ? 0xa0 : 0x80;
            high = first == 0xed ? 0x9f : 0xbf;
        } else if (first >= 0xf0 && first <= 0xf4) {
            more = 3;
            low = first == 0xf0 ? 0x90 : 0x80;
            high = first == 0xf4 ? 0x8f : 0xbf;
        } else {
            return false;
        }
        if (length - at <= more || bytes[at + 1] < low || bytes[at + 1] > high) {
            return false;
        }
        for (size_t next = at + 2; next <= at + more; next++) {
            if ((bytes[next] & 0xc0) != 0x80) {
                return false;
            }
        }
        at += more + 1;
    }
    return true;
}

static inline uint64_t tombolo_load_word(const uint8_t *from)
{
    uint64_t word = 0;
    for (int byte = 7; byte >= 0; byte--) {
        word = word << 8 | from[byte];
    }
    return word;
}

static inline void tombolo_store_le(uint8_t *to, uint64_t value, uint32_t bytes)
{
    for (uint32_t byte = 0; byte < bytes; byte++) {
        to[byte] = (uint8_t)(value >> (8 * byte));
    }
}

/* --- memory for lists ---------------------------------------------------------------------------------------------- */

/* Bump allocator over memory supplied by the caller. */
typedef struct tombolo_memory {
    uint8_t *start;
    size_t bytes;
    size_t used;
} tombolo_memory;

/* Allocates `bytes` zeroed bytes, aligned to eight; null if there is too little left. */
static inline void *tombolo_memory_take(tombolo_memory *memory, size_t bytes)
{
    const size_t gap = (size_t)(-(uintptr_t)(memory->start + memory->used) & 7);
    const size_t left = memory->bytes - memory->used;
    void *taken;
    if (left < gap || left - gap < bytes) {
        return NULL;
    }
    taken = memory->start + memory->used + gap;
    memory->used += gap + bytes;
    return memset(taken, 0, bytes);
}

/* --- writing ------------------------------------------------------------------------------------------------------- */

/* A message being written into memory supplied by the caller. */
typedef struct tombolo_writer {
    uint8_t *start;
    uint32_t capacity;
    uint32_t next; /* offset of the next object */
    tombolo_status status;
    const char *field; /* name of the field that could not be written */
} tombolo_writer;

/* Records the first error: TOMBOLO_OVER_LIMIT for a disallowed value, TOMBOLO_TOO_LONG for a message that does not fit. */
static inline void tombolo_put_fail(tombolo_writer *w, tombolo_status status, const char *field)
{
    if (w->status == TOMBOLO_OK) {
        w->status = status;
        w->field = field;
    }
}

static inline bool tombolo_is_writing(const tombolo_writer *w)
{
    return w->status == TOMBOLO_OK;
}

/* Fails for a value that the interface does not declare. */
static inline void tombolo_put_known(tombolo_writer *w, bool is_known, const char *field)
{
    if (!is_known) {
        tombolo_put_fail(w, TOMBOLO_OVER_LIMIT, field);
    }
}

/* Reserves zeroed room for an object of that many bytes, and returns its offset. */
static inline uint32_t tombolo_put_object(tombolo_writer *w, uint32_t bytes)
{
    const uint32_t start = w->next, left = w->capacity - w->next;
    if (bytes > left || tombolo_round_up(bytes) > left) {
        tombolo_put_fail(w, TOMBOLO_TOO_LONG, "the message");
    }
    if (!tombolo_is_writing(w)) {
        return 0;
    }
    w->next += tombolo_round_up(bytes);
    memset(w->start + start, 0, w->next - start);
    return start;
}

/* Stores a number of up to eight bytes at an offset of the message. */
static inline void tombolo_put(tombolo_writer *w, uint32_t at, uint64_t value, uint32_t bytes)
{
    if (tombolo_is_writing(w) && at <= w->next && bytes <= w->next - at) {
        tombolo_store_le(w->start + at, value, bytes);
    }
}

static inline void tombolo_put_f32(tombolo_writer *w, uint32_t at, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    tombolo_put(w, at, bits, 4);
}

static inline void tombolo_put_f64(tombolo_writer *w, uint32_t at, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    tombolo_put(w, at, bits, 8);
}

static inline void tombolo_put_right(tombolo_writer *w, uint32_t at, tombolo_right right, uint64_t mark)
{
    if (right.mark != mark) {
        tombolo_put_fail(w, TOMBOLO_OVER_LIMIT, "a right of another kind, or copied where it is to be given away");
        return;
    }
    tombolo_put(w, at, right.object, 8);
    tombolo_put(w, at + 8, mark, 8);
}

/* Writes a reference to an out-of-line object: its offset and its element count. */
static inline void tombolo_put_reference(tombolo_writer *w, uint32_t at, uint32_t start, uint32_t count)
{
    tombolo_put(w, at, start, 4);
    tombolo_put(w, at + 4, count, 4);
}

/* Reserves room for the elements of a list, of `each` bytes, and returns its offset; 0 if the list is empty. */
static inline uint32_t tombolo_put_list(tombolo_writer *w, uint32_t at, const void *items, uint32_t count, uint32_t each,
                                        uint32_t max, const char *field)
{
    const uint64_t bytes = (uint64_t)count * each;
    uint32_t start;
    if (count == 0) {
        return 0;
    }
    if (count > max || items == NULL) {
        tombolo_put_fail(w, TOMBOLO_OVER_LIMIT, field);
        return 0;
    }
    if (bytes > w->capacity) {
        tombolo_put_fail(w, TOMBOLO_TOO_LONG, field);
        return 0;
    }
    start = tombolo_put_object(w, (uint32_t)bytes);
    tombolo_put_reference(w, at, start, count);
    return start;
}

static inline void tombolo_put_bytes(tombolo_writer *w, uint32_t at, tombolo_bytes bytes, uint32_t max,
                                     const char *field)
{
    const uint32_t start = tombolo_put_list(w, at, bytes.data, bytes.length, 1, max, field);
    if (tombolo_is_writing(w) && bytes.length != 0) {
        memcpy(w->start + start, bytes.data, bytes.length);
    }
}

static inline void tombolo_put_text(tombolo_writer *w, uint32_t at, tombolo_text text, uint32_t max, const char *field)
{
    const uint8_t *data = (const uint8_t *)text.data;
    if (text.length != 0 && text.length <= max && data != NULL && !tombolo_is_utf8(data, text.length)) {
        tombolo_put_fail(w, TOMBOLO_OVER_LIMIT, field);
    }
    tombolo_put_bytes(w, at, tombolo_bytes_of(data, text.length), max, field);
}

/* Reserves room for the fields of an out-of-line struct, and returns its offset. */
static inline uint32_t tombolo_put_record(tombolo_writer *w, uint32_t at, uint32_t bytes)
{
    const uint32_t start = tombolo_put_object(w, bytes);
    tombolo_put_reference(w, at, start, bytes);
    return start;
}

/* Writes the case of a union, reserves room for its value, and returns the value's offset. */
static inline uint32_t tombolo_put_case(tombolo_writer *w, uint32_t at, uint32_t which, uint32_t bytes)
{
    const uint32_t start = bytes == 0 ? 0 : tombolo_put_object(w, bytes);
    tombolo_put_reference(w, at, which, bytes);
    tombolo_put(w, at + 8, start, 4);
    return start;
}

/* --- reading ------------------------------------------------------------------------------------------------------- */

/* A message being read from private memory. */
typedef struct tombolo_reader {
    const uint8_t *start;
    uint32_t length;
    uint32_t budget; /* bytes that may still be decoded: bounds the cost of messages whose parts overlap */
    tombolo_memory *memory;
    tombolo_status status;
    const char *why; /* description of the error */
    uint32_t at;     /* offset of the error, in bytes */
} tombolo_reader;

/* Fields or elements, from `start` to `end`. Fields beyond the end, which an older peer does not send, read as zero. */
typedef struct tombolo_record {
    uint32_t start;
    uint32_t end;
} tombolo_record;

/* Records the first error: TOMBOLO_MALFORMED, or TOMBOLO_NO_MEMORY when the memory for lists is used up. */
static inline void tombolo_get_fail(tombolo_reader *r, tombolo_status status, uint32_t at, const char *why)
{
    if (r->status == TOMBOLO_OK) {
        r->status = status;
        r->why = why;
        r->at = at;
    }
}

static inline bool tombolo_is_reading(const tombolo_reader *r)
{
    return r->status == TOMBOLO_OK;
}

static inline void tombolo_get_known(tombolo_reader *r, uint32_t at, bool is_known)
{
    if (!is_known) {
        tombolo_get_fail(r, TOMBOLO_MALFORMED, at, "a value that the interface does not name");
    }
}

/* Reads a number of up to eight bytes. Upper bits come from the bytes that follow it; the caller truncates. */
static inline uint64_t tombolo_get(tombolo_reader *r, tombolo_record in, uint32_t at)
{
    const uint32_t word = at & ~UINT32_C(7);
    if (!tombolo_is_reading(r) || at >= in.end) {
        return 0;
    }
    if (r->length < 8 || word > r->length - 8) {
        tombolo_get_fail(r, TOMBOLO_MALFORMED, at, "the message is cut");
        return 0;
    }
    return tombolo_load_word(r->start + word) >> (8 * (at & 7));
}

static inline bool tombolo_get_bool(tombolo_reader *r, tombolo_record in, uint32_t at)
{
    const uint8_t value = (uint8_t)tombolo_get(r, in, at);
    if (value > 1) {
        tombolo_get_fail(r, TOMBOLO_MALFORMED, at, "a bool that is neither 0 nor 1");
    }
    return value == 1;
}

static inline float tombolo_get_f32(tombolo_reader *r, tombolo_record in, uint32_t at)
{
    const uint32_t bits = (uint32_t)tombolo_get(r, in, at);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double tombolo_get_f64(tombolo_reader *r, tombolo_record in, uint32_t at)
{
    const uint64_t bits = tombolo_get(r, in, at);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline tombolo_right tombolo_get_right(tombolo_reader *r, tombolo_record in, uint32_t at, uint64_t mark)
{
    tombolo_right right;
    right.object = tombolo_get(r, in, at);
    right.mark = mark;
    if (tombolo_get(r, in, at + 8) != mark) {
        tombolo_get_fail(r, TOMBOLO_MALFORMED, at, "a capability of another kind");
    }
    return right;
}

static inline void tombolo_get_spend(tombolo_reader *r, uint32_t bytes)
{
    if (bytes > r->budget) {
        tombolo_get_fail(r, TOMBOLO_MALFORMED, 0, "parts of the message overlap");
        bytes = r->budget;
    }
    r->budget -= bytes;
}

/* Returns the object at `start`; fails unless it lies within the message. */
static inline tombolo_record tombolo_get_lying(tombolo_reader *r, uint64_t start, uint64_t bytes, uint32_t at)
{
    tombolo_record object = {0, 0};
    const bool empty = bytes == 0 && start == 0;
    const bool inside = bytes != 0 && start >= 8 && start % 8 == 0 && start <= r->length && bytes <= r->length - start;
    if (!empty && !inside) {
        tombolo_get_fail(r, TOMBOLO_MALFORMED, at, "what is referred to does not lie in the message");
    }
    if (inside && tombolo_is_reading(r)) {
        object.start = (uint32_t)start;
        object.end = (uint32_t)(start + bytes);
    }
    return object;
}

/* Follows a reference to elements of `each` bytes, and stores their number in `*count`. */
static inline tombolo_record tombolo_get_object(tombolo_reader *r, tombolo_record in, uint32_t at, uint32_t each,
                                                uint32_t max, uint32_t *count)
{
    const uint64_t word = tombolo_get(r, in, at);
    const uint32_t elements = (uint32_t)(word >> 32);
    const uint64_t bytes = ((uint64_t)elements * each + 7) / 8 * 8;
    tombolo_record object = {0, 0};
    *count = 0;
    if (elements > max) {
        tombolo_get_fail(r, TOMBOLO_MALFORMED, at, "more elements than the interface allows");
        return object;
    }
    object = tombolo_get_lying(r, word & UINT32_MAX, bytes, at);
    tombolo_get_spend(r, object.end - object.start);
    if (tombolo_is_reading(r)) {
        *count = elements;
    }
    return object;
}

/* Follows the reference of a list and allocates memory for its elements; null if it is empty. */
static inline void *tombolo_get_list(tombolo_reader *r, tombolo_record in, uint32_t at, uint32_t each, uint32_t max,
                                     size_t size, tombolo_record *object, uint32_t *count)
{
    void *items = NULL;
    *object = tombolo_get_object(r, in, at, each, max, count);
    if (*count != 0) {
        items = size > SIZE_MAX / *count ? NULL : tombolo_memory_take(r->memory, *count * size);
        if (items == NULL) {
            tombolo_get_fail(r, TOMBOLO_NO_MEMORY, at, "the memory for lists is used up");
            *count = 0;
        }
    }
    return items;
}

static inline tombolo_bytes tombolo_get_bytes(tombolo_reader *r, tombolo_record in, uint32_t at, uint32_t max)
{
    uint32_t count;
    const tombolo_record object = tombolo_get_object(r, in, at, 1, max, &count);
    return tombolo_bytes_of(r->start + object.start, count);
}

static inline tombolo_text tombolo_get_text(tombolo_reader *r, tombolo_record in, uint32_t at, uint32_t max)
{
    const tombolo_bytes bytes = tombolo_get_bytes(r, in, at, max);
    tombolo_text text;
    text.data = (const char *)bytes.data;
    text.length = bytes.length;
    if (!tombolo_is_utf8(bytes.data, bytes.length)) {
        tombolo_get_fail(r, TOMBOLO_MALFORMED, at, "text that is not UTF-8");
    }
    return text;
}

/* Follows the reference of an out-of-line struct. */
static inline tombolo_record tombolo_get_record(tombolo_reader *r, tombolo_record in, uint32_t at)
{
    uint32_t bytes;
    const tombolo_record object = tombolo_get_object(r, in, at, 1, UINT32_MAX, &bytes);
    if (bytes % 8 != 0) {
        tombolo_get_fail(r, TOMBOLO_MALFORMED, at, "a struct that ends within a word");
    }
    return object;
}

/* Returns the case of a union, and its value in `*inside`. */
static inline uint32_t tombolo_get_case(tombolo_reader *r, tombolo_record in, uint32_t at, tombolo_record *inside)
{
    const uint64_t word = tombolo_get(r, in, at), start = tombolo_get(r, in, at + 8);
    const uint32_t bytes = (uint32_t)(word >> 32);
    if ((uint32_t)word == 0 || bytes % 8 != 0) {
        tombolo_get_fail(r, TOMBOLO_MALFORMED, at, "a union without a valid case");
    }
    *inside = tombolo_get_lying(r, start, bytes, at);
    return (uint32_t)word;
}

/* Returns whether the value of a union has the required length, and charges it to the budget. */
static inline bool tombolo_get_exactly(tombolo_reader *r, tombolo_record inside, uint32_t bytes)
{
    if (inside.end - inside.start != bytes) {
        tombolo_get_fail(r, TOMBOLO_MALFORMED, inside.start, "the value of a union of another length");
    }
    tombolo_get_spend(r, bytes);
    return tombolo_is_reading(r);
}

/* --- whole messages ------------------------------------------------------------------------------------------------ */

enum {
    TOMBOLO_MESSAGE = 1, /* one-way */
    TOMBOLO_CALL = 2,    /* expects an answer */
    TOMBOLO_REPLY = 3,   /* the results of a call */
    TOMBOLO_ERROR = 4,   /* the declared error of a call */
    TOMBOLO_NOT_SERVED = 5,
    TOMBOLO_CANCEL = 6   /* the client no longer wants the answer */
};

/* Header of a message. */
typedef struct tombolo_header {
    uint16_t ordinal;
    uint8_t kind;
    uint32_t call; /* 24 bits; 0 for messages that belong to no call */
} tombolo_header;

/* Begins a message with `body_bytes` inline bytes of body, which start at TOMBOLO_HEADER_BYTES. */
static inline tombolo_writer tombolo_write(void *buffer, size_t capacity, tombolo_header header, uint32_t body_bytes)
{
    tombolo_writer w;
    w.start = (uint8_t *)buffer;
    w.capacity = capacity > (UINT32_MAX & ~UINT32_C(7)) ? (UINT32_MAX & ~UINT32_C(7)) : (uint32_t)capacity;
    w.next = 0;
    w.status = TOMBOLO_OK;
    w.field = "";
    tombolo_put_object(&w, TOMBOLO_HEADER_BYTES + body_bytes);
    tombolo_put(&w, 0, header.ordinal, 2);
    tombolo_put(&w, 2, body_bytes / 8, 2);
    tombolo_put(&w, 4, header.kind, 1);
    tombolo_put(&w, 5, header.call, 3);
    return w;
}

/* Begins reading a message. Its lists are allocated from `memory`. */
static inline tombolo_reader tombolo_read(const void *message, size_t length, tombolo_memory *memory,
                                          tombolo_header *header, tombolo_record *body)
{
    tombolo_reader r;
    tombolo_record first = {0, 8};
    uint64_t word;
    r.start = (const uint8_t *)message;
    r.length = length > UINT32_MAX ? 0 : (uint32_t)length;
    r.budget = r.length;
    r.memory = memory;
    r.status = TOMBOLO_OK;
    r.why = "";
    r.at = 0;
    if (r.length % 8 != 0) {
        tombolo_get_fail(&r, TOMBOLO_MALFORMED, 0, "a message that ends within a word");
    }
    word = tombolo_get(&r, first, 0);
    header->ordinal = (uint16_t)word;
    header->kind = (uint8_t)(word >> 32);
    header->call = (uint32_t)(word >> 40);
    body->start = TOMBOLO_HEADER_BYTES;
    body->end = TOMBOLO_HEADER_BYTES + (uint32_t)(word >> 16 & 0xffff) * 8;
    if (body->end > r.length) {
        tombolo_get_fail(&r, TOMBOLO_MALFORMED, 0, "the message is shorter than it says");
    } else if (header->kind < TOMBOLO_MESSAGE || header->kind > TOMBOLO_CANCEL) {
        tombolo_get_fail(&r, TOMBOLO_MALFORMED, 4, "a kind of message that is unknown");
    }
    if (!tombolo_is_reading(&r)) {
        body->end = body->start;
    }
    tombolo_get_spend(&r, body->end - body->start);
    return r;
}

#ifdef __cplusplus
}
#endif

#endif
