/*
 * Every type of the language in every position, for tests of the back ends.
 *
 * Written by `tombolo idl compile --lang c` from interfaces/everything.tbl.
 */
#ifndef TESTING_EVERYTHING_H
#define TESTING_EVERYTHING_H

#include <tombolo/interface.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An enumeration without unknown values. */
typedef uint8_t testing_colour;
#define TESTING_COLOUR_NONE ((testing_colour)0)
#define TESTING_COLOUR_RED ((testing_colour)1)
/* The value after red. */
#define TESTING_COLOUR_GREEN ((testing_colour)2)

/* Returns whether it is one of the values above. */
static inline bool testing_colour_is_known(testing_colour value)
{
    return value == TESTING_COLOUR_NONE || value == TESTING_COLOUR_RED || value == TESTING_COLOUR_GREEN;
}

/* Returns the name in the interface file, or "unknown". */
static inline const char *testing_colour_name(testing_colour value)
{
    TOMBOLO_NAME(TESTING_COLOUR_NONE, "none");
    TOMBOLO_NAME(TESTING_COLOUR_RED, "red");
    TOMBOLO_NAME(TESTING_COLOUR_GREEN, "green");
    return "unknown";
}

/* An enumeration that may get further values. */
typedef int16_t testing_step;
#define TESTING_STEP_BACK ((testing_step)(-INT64_C(1)))
#define TESTING_STEP_STAY ((testing_step)0)
#define TESTING_STEP_FORTH ((testing_step)1)

/* Returns the name in the interface file, or "unknown". */
static inline const char *testing_step_name(testing_step value)
{
    TOMBOLO_NAME(TESTING_STEP_BACK, "back");
    TOMBOLO_NAME(TESTING_STEP_STAY, "stay");
    TOMBOLO_NAME(TESTING_STEP_FORTH, "forth");
    return "unknown";
}

/* Flags without unknown bits. */
typedef uint16_t testing_rights;
#define TESTING_RIGHTS_READ ((testing_rights)1)
#define TESTING_RIGHTS_WRITE ((testing_rights)2)
#define TESTING_RIGHTS_GRANT ((testing_rights)32768)

/* Returns whether all bits are among those above. */
static inline bool testing_rights_is_known(testing_rights value)
{
    return (value & ~UINT64_C(0x8003)) == 0;
}

/* Flags that may get further bits. */
typedef uint64_t testing_hints;
#define TESTING_HINTS_NEAR ((testing_hints)1)
#define TESTING_HINTS_FAR ((testing_hints)UINT64_C(9223372036854775808))

/* A structure that is encoded inline. */
typedef struct testing_point {
    float x;
    float y;
    uint8_t tag;
} testing_point;
/* Length of its fields on the wire, in bytes. */
#define TESTING_POINT_BYTES 12

static inline void testing_point_put(tombolo_writer *w, uint32_t at, const testing_point *value)
{
    tombolo_put_f32(w, at, value->x);
    tombolo_put_f32(w, at + 4, value->y);
    tombolo_put(w, at + 8, value->tag, 1);
}

static inline void testing_point_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_point *value)
{
    value->x = tombolo_get_f32(r, in, at);
    value->y = tombolo_get_f32(r, in, at + 4);
    value->tag = (uint8_t)tombolo_get(r, in, at + 8);
}

TOMBOLO_LIST(testing_list_point, testing_point);

TOMBOLO_OPTIONAL(testing_optional_colour, testing_colour value);

/* A structure that may get further fields. */
typedef struct testing_entry {
    tombolo_text name; /* up to 16 bytes */
    testing_list_point points; /* up to 4 */
    testing_optional_colour colour;
} testing_entry;
/* Length of its fields on the wire, in bytes. */
#define TESTING_ENTRY_BYTES 24

static inline void testing_entry_put(tombolo_writer *w, uint32_t at, const testing_entry *value)
{
    tombolo_put_text(w, at, value->name, 16, "Entry.name");
    {
        const uint32_t list0 = tombolo_put_list(w, at + 8, value->points.items, value->points.count, 12, 4, "Entry.points");
        for (uint32_t i0 = 0; i0 < value->points.count && tombolo_is_writing(w); i0++) {
            testing_point_put(w, list0 + i0 * 12, &value->points.items[i0]);
        }
    }
    if (value->colour.there) {
        tombolo_put(w, at + 16, 1, 1);
        tombolo_put_known(w, testing_colour_is_known(value->colour.value), "Entry.colour");
        tombolo_put(w, at + 16 + 1, value->colour.value, 1);
    }
}

static inline void testing_entry_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_entry *value)
{
    value->name = tombolo_get_text(r, in, at, 16);
    {
        tombolo_record list0;
        testing_point *items0 = (testing_point *)tombolo_get_list(r, in, at + 8, 12, 4, sizeof(testing_point), &list0, &value->points.count);
        for (uint32_t i0 = 0; i0 < value->points.count && tombolo_is_reading(r); i0++) {
            testing_point_get(r, list0, list0.start + i0 * 12, &items0[i0]);
        }
        value->points.items = items0;
    }
    value->colour.there = tombolo_get_bool(r, in, at + 16);
    if (value->colour.there) {
        value->colour.value = (testing_colour)tombolo_get(r, in, at + 16 + 1);
        tombolo_get_known(r, at + 16 + 1, testing_colour_is_known(value->colour.value));
    }
}

/* The parameters of a message. */
typedef struct testing_everything_numbers_request {
    bool a;
    uint8_t b;
    uint16_t c;
    uint32_t d;
    uint64_t e;
    int8_t f;
    int16_t g;
    int32_t h;
    int64_t i;
    float j;
    double k;
    testing_colour colour;
    testing_step step;
    testing_rights rights;
    testing_hints hints;
    uint64_t domain;
} testing_everything_numbers_request;
/* Length of its fields on the wire, in bytes. */
#define TESTING_EVERYTHING_NUMBERS_REQUEST_BYTES 72

static inline void testing_everything_numbers_request_put(tombolo_writer *w, uint32_t at, const testing_everything_numbers_request *value)
{
    tombolo_put(w, at, value->a ? 1 : 0, 1);
    tombolo_put(w, at + 1, value->b, 1);
    tombolo_put(w, at + 2, value->c, 2);
    tombolo_put(w, at + 4, value->d, 4);
    tombolo_put(w, at + 8, value->e, 8);
    tombolo_put(w, at + 16, (uint64_t)value->f, 1);
    tombolo_put(w, at + 18, (uint64_t)value->g, 2);
    tombolo_put(w, at + 20, (uint64_t)value->h, 4);
    tombolo_put(w, at + 24, (uint64_t)value->i, 8);
    tombolo_put_f32(w, at + 32, value->j);
    tombolo_put_f64(w, at + 40, value->k);
    tombolo_put_known(w, testing_colour_is_known(value->colour), "EverythingNumbersRequest.colour");
    tombolo_put(w, at + 48, value->colour, 1);
    tombolo_put(w, at + 50, (uint64_t)value->step, 2);
    tombolo_put_known(w, testing_rights_is_known(value->rights), "EverythingNumbersRequest.rights");
    tombolo_put(w, at + 52, value->rights, 2);
    tombolo_put(w, at + 56, value->hints, 8);
    tombolo_put(w, at + 64, value->domain, 8);
}

static inline void testing_everything_numbers_request_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_everything_numbers_request *value)
{
    value->a = tombolo_get_bool(r, in, at);
    value->b = (uint8_t)tombolo_get(r, in, at + 1);
    value->c = (uint16_t)tombolo_get(r, in, at + 2);
    value->d = (uint32_t)tombolo_get(r, in, at + 4);
    value->e = (uint64_t)tombolo_get(r, in, at + 8);
    value->f = (int8_t)tombolo_get(r, in, at + 16);
    value->g = (int16_t)tombolo_get(r, in, at + 18);
    value->h = (int32_t)tombolo_get(r, in, at + 20);
    value->i = (int64_t)tombolo_get(r, in, at + 24);
    value->j = tombolo_get_f32(r, in, at + 32);
    value->k = tombolo_get_f64(r, in, at + 40);
    value->colour = (testing_colour)tombolo_get(r, in, at + 48);
    tombolo_get_known(r, at + 48, testing_colour_is_known(value->colour));
    value->step = (testing_step)tombolo_get(r, in, at + 50);
    value->rights = (testing_rights)tombolo_get(r, in, at + 52);
    tombolo_get_known(r, at + 52, testing_rights_is_known(value->rights));
    value->hints = (testing_hints)tombolo_get(r, in, at + 56);
    value->domain = tombolo_get(r, in, at + 64);
}

/* The results of a call. */
typedef struct testing_everything_numbers_reply {
    bool a;
    uint8_t b;
    uint16_t c;
    uint32_t d;
    uint64_t e;
    int8_t f;
    int16_t g;
    int32_t h;
    int64_t i;
    float j;
    double k;
    testing_colour colour;
    testing_step step;
    testing_rights rights;
    testing_hints hints;
    uint64_t domain;
} testing_everything_numbers_reply;
/* Length of its fields on the wire, in bytes. */
#define TESTING_EVERYTHING_NUMBERS_REPLY_BYTES 72

static inline void testing_everything_numbers_reply_put(tombolo_writer *w, uint32_t at, const testing_everything_numbers_reply *value)
{
    tombolo_put(w, at, value->a ? 1 : 0, 1);
    tombolo_put(w, at + 1, value->b, 1);
    tombolo_put(w, at + 2, value->c, 2);
    tombolo_put(w, at + 4, value->d, 4);
    tombolo_put(w, at + 8, value->e, 8);
    tombolo_put(w, at + 16, (uint64_t)value->f, 1);
    tombolo_put(w, at + 18, (uint64_t)value->g, 2);
    tombolo_put(w, at + 20, (uint64_t)value->h, 4);
    tombolo_put(w, at + 24, (uint64_t)value->i, 8);
    tombolo_put_f32(w, at + 32, value->j);
    tombolo_put_f64(w, at + 40, value->k);
    tombolo_put_known(w, testing_colour_is_known(value->colour), "EverythingNumbersReply.colour");
    tombolo_put(w, at + 48, value->colour, 1);
    tombolo_put(w, at + 50, (uint64_t)value->step, 2);
    tombolo_put_known(w, testing_rights_is_known(value->rights), "EverythingNumbersReply.rights");
    tombolo_put(w, at + 52, value->rights, 2);
    tombolo_put(w, at + 56, value->hints, 8);
    tombolo_put(w, at + 64, value->domain, 8);
}

static inline void testing_everything_numbers_reply_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_everything_numbers_reply *value)
{
    value->a = tombolo_get_bool(r, in, at);
    value->b = (uint8_t)tombolo_get(r, in, at + 1);
    value->c = (uint16_t)tombolo_get(r, in, at + 2);
    value->d = (uint32_t)tombolo_get(r, in, at + 4);
    value->e = (uint64_t)tombolo_get(r, in, at + 8);
    value->f = (int8_t)tombolo_get(r, in, at + 16);
    value->g = (int16_t)tombolo_get(r, in, at + 18);
    value->h = (int32_t)tombolo_get(r, in, at + 20);
    value->i = (int64_t)tombolo_get(r, in, at + 24);
    value->j = tombolo_get_f32(r, in, at + 32);
    value->k = tombolo_get_f64(r, in, at + 40);
    value->colour = (testing_colour)tombolo_get(r, in, at + 48);
    tombolo_get_known(r, at + 48, testing_colour_is_known(value->colour));
    value->step = (testing_step)tombolo_get(r, in, at + 50);
    value->rights = (testing_rights)tombolo_get(r, in, at + 52);
    tombolo_get_known(r, at + 52, testing_rights_is_known(value->rights));
    value->hints = (testing_hints)tombolo_get(r, in, at + 56);
    value->domain = tombolo_get(r, in, at + 64);
}

TOMBOLO_LIST(testing_list_entry, testing_entry);

#define TESTING_SHAPE_NOTHING UINT32_C(1)
#define TESTING_SHAPE_NUMBER UINT32_C(2)
#define TESTING_SHAPE_POINT UINT32_C(3)
#define TESTING_SHAPE_ENTRY UINT32_C(4)
#define TESTING_SHAPE_NAMES UINT32_C(5)

/* A union with cases of several types. */
typedef struct testing_shape {
    uint32_t which; /* one of the numbers above; others come from newer peers */
    union {
        uint64_t number;
        testing_point point;
        testing_entry entry;
        tombolo_list_text names; /* up to 3, each of up to 8 bytes */
    } as;
} testing_shape;

static inline void testing_shape_put(tombolo_writer *w, uint32_t at, const testing_shape *value)
{
    switch (value->which) {
    case TESTING_SHAPE_NOTHING:
        (void)tombolo_put_case(w, at, TESTING_SHAPE_NOTHING, 0);
        break;
    case TESTING_SHAPE_NUMBER:
        at = tombolo_put_case(w, at, TESTING_SHAPE_NUMBER, 8);
        tombolo_put(w, at, value->as.number, 8);
        break;
    case TESTING_SHAPE_POINT:
        at = tombolo_put_case(w, at, TESTING_SHAPE_POINT, 16);
        testing_point_put(w, at, &value->as.point);
        break;
    case TESTING_SHAPE_ENTRY:
        at = tombolo_put_case(w, at, TESTING_SHAPE_ENTRY, 8);
        testing_entry_put(w, tombolo_put_record(w, at, TESTING_ENTRY_BYTES), &value->as.entry);
        break;
    case TESTING_SHAPE_NAMES:
        at = tombolo_put_case(w, at, TESTING_SHAPE_NAMES, 8);
        {
            const uint32_t list0 = tombolo_put_list(w, at, value->as.names.items, value->as.names.count, 8, 3, "Shape.names");
            for (uint32_t i0 = 0; i0 < value->as.names.count && tombolo_is_writing(w); i0++) {
                tombolo_put_text(w, list0 + i0 * 8, value->as.names.items[i0], 8, "Shape.names");
            }
        }
        break;
    default:
        tombolo_put_fail(w, TOMBOLO_OVER_LIMIT, "Shape");
        break;
    }
}

static inline void testing_shape_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_shape *value)
{
    tombolo_record inside;
    value->which = tombolo_get_case(r, in, at, &inside);
    switch (value->which) {
    case TESTING_SHAPE_NOTHING:
        (void)tombolo_get_exactly(r, inside, 0);
        break;
    case TESTING_SHAPE_NUMBER:
        if (tombolo_get_exactly(r, inside, 8)) {
            value->as.number = (uint64_t)tombolo_get(r, inside, inside.start);
        }
        break;
    case TESTING_SHAPE_POINT:
        if (tombolo_get_exactly(r, inside, 16)) {
            testing_point_get(r, inside, inside.start, &value->as.point);
        }
        break;
    case TESTING_SHAPE_ENTRY:
        if (tombolo_get_exactly(r, inside, 8)) {
            {
                const tombolo_record record0 = tombolo_get_record(r, inside, inside.start);
                testing_entry_get(r, record0, record0.start, &value->as.entry);
            }
        }
        break;
    case TESTING_SHAPE_NAMES:
        if (tombolo_get_exactly(r, inside, 8)) {
            {
                tombolo_record list0;
                tombolo_text *items0 = (tombolo_text *)tombolo_get_list(r, inside, inside.start, 8, 3, sizeof(tombolo_text), &list0, &value->as.names.count);
                for (uint32_t i0 = 0; i0 < value->as.names.count && tombolo_is_reading(r); i0++) {
                    items0[i0] = tombolo_get_text(r, list0, list0.start + i0 * 8, 8);
                }
                value->as.names.items = items0;
            }
        }
        break;
    default:
        break;
    }
}

TOMBOLO_LIST(testing_list_shape, testing_shape);

TOMBOLO_OPTIONAL(testing_optional_point, testing_point value);

TOMBOLO_OPTIONAL(testing_optional_entry, testing_entry value);

#ifndef TESTING_LIST_LIST_U32_TYPE
#define TESTING_LIST_LIST_U32_TYPE
TOMBOLO_LIST(testing_list_list_u32, tombolo_list_u32);
#endif

/* The parameters of a message. */
typedef struct testing_everything_parts_request {
    tombolo_text text; /* up to 32 bytes */
    tombolo_bytes blob; /* up to 32 bytes */
    tombolo_list_u16 numbers; /* up to 8 */
    int32_t fixed[3];
    tombolo_list_bool flags; /* up to 9 */
    testing_entry entry;
    testing_list_entry entries; /* up to 3 */
    testing_shape shape;
    testing_list_shape shapes; /* up to 3 */
    tombolo_optional_u64 maybe;
    tombolo_optional_text maybe_text; /* up to 8 bytes */
    testing_optional_point maybe_point;
    testing_optional_entry maybe_entry;
    uint8_t matrix[3][2];
    testing_list_list_u32 nested; /* up to 3, each of up to 2 */
} testing_everything_parts_request;
/* Length of its fields on the wire, in bytes. */
#define TESTING_EVERYTHING_PARTS_REQUEST_BYTES 168

static inline void testing_everything_parts_request_put(tombolo_writer *w, uint32_t at, const testing_everything_parts_request *value)
{
    tombolo_put_text(w, at, value->text, 32, "EverythingPartsRequest.text");
    tombolo_put_bytes(w, at + 8, value->blob, 32, "EverythingPartsRequest.blob");
    {
        const uint32_t list0 = tombolo_put_list(w, at + 16, value->numbers.items, value->numbers.count, 2, 8, "EverythingPartsRequest.numbers");
        for (uint32_t i0 = 0; i0 < value->numbers.count && tombolo_is_writing(w); i0++) {
            tombolo_put(w, list0 + i0 * 2, value->numbers.items[i0], 2);
        }
    }
    for (uint32_t i0 = 0; i0 < 3; i0++) {
        tombolo_put(w, at + 24 + i0 * 4, (uint64_t)value->fixed[i0], 4);
    }
    {
        const uint32_t list0 = tombolo_put_list(w, at + 40, value->flags.items, value->flags.count, 1, 9, "EverythingPartsRequest.flags");
        for (uint32_t i0 = 0; i0 < value->flags.count && tombolo_is_writing(w); i0++) {
            tombolo_put(w, list0 + i0 * 1, value->flags.items[i0] ? 1 : 0, 1);
        }
    }
    testing_entry_put(w, tombolo_put_record(w, at + 48, TESTING_ENTRY_BYTES), &value->entry);
    {
        const uint32_t list0 = tombolo_put_list(w, at + 56, value->entries.items, value->entries.count, 8, 3, "EverythingPartsRequest.entries");
        for (uint32_t i0 = 0; i0 < value->entries.count && tombolo_is_writing(w); i0++) {
            testing_entry_put(w, tombolo_put_record(w, list0 + i0 * 8, TESTING_ENTRY_BYTES), &value->entries.items[i0]);
        }
    }
    testing_shape_put(w, at + 64, &value->shape);
    {
        const uint32_t list0 = tombolo_put_list(w, at + 80, value->shapes.items, value->shapes.count, 16, 3, "EverythingPartsRequest.shapes");
        for (uint32_t i0 = 0; i0 < value->shapes.count && tombolo_is_writing(w); i0++) {
            testing_shape_put(w, list0 + i0 * 16, &value->shapes.items[i0]);
        }
    }
    if (value->maybe.there) {
        tombolo_put(w, at + 88, 1, 1);
        tombolo_put(w, at + 88 + 8, value->maybe.value, 8);
    }
    if (value->maybe_text.there) {
        tombolo_put(w, at + 104, 1, 1);
        tombolo_put_text(w, at + 104 + 8, value->maybe_text.value, 8, "EverythingPartsRequest.maybe_text");
    }
    if (value->maybe_point.there) {
        tombolo_put(w, at + 120, 1, 1);
        testing_point_put(w, at + 120 + 4, &value->maybe_point.value);
    }
    if (value->maybe_entry.there) {
        tombolo_put(w, at + 136, 1, 1);
        testing_entry_put(w, tombolo_put_record(w, at + 136 + 8, TESTING_ENTRY_BYTES), &value->maybe_entry.value);
    }
    for (uint32_t i0 = 0; i0 < 3; i0++) {
        for (uint32_t i1 = 0; i1 < 2; i1++) {
            tombolo_put(w, at + 152 + i0 * 2 + i1 * 1, value->matrix[i0][i1], 1);
        }
    }
    {
        const uint32_t list0 = tombolo_put_list(w, at + 160, value->nested.items, value->nested.count, 8, 3, "EverythingPartsRequest.nested");
        for (uint32_t i0 = 0; i0 < value->nested.count && tombolo_is_writing(w); i0++) {
            {
                const uint32_t list1 = tombolo_put_list(w, list0 + i0 * 8, value->nested.items[i0].items, value->nested.items[i0].count, 4, 2, "EverythingPartsRequest.nested");
                for (uint32_t i1 = 0; i1 < value->nested.items[i0].count && tombolo_is_writing(w); i1++) {
                    tombolo_put(w, list1 + i1 * 4, value->nested.items[i0].items[i1], 4);
                }
            }
        }
    }
}

static inline void testing_everything_parts_request_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_everything_parts_request *value)
{
    value->text = tombolo_get_text(r, in, at, 32);
    value->blob = tombolo_get_bytes(r, in, at + 8, 32);
    {
        tombolo_record list0;
        uint16_t *items0 = (uint16_t *)tombolo_get_list(r, in, at + 16, 2, 8, sizeof(uint16_t), &list0, &value->numbers.count);
        for (uint32_t i0 = 0; i0 < value->numbers.count && tombolo_is_reading(r); i0++) {
            items0[i0] = (uint16_t)tombolo_get(r, list0, list0.start + i0 * 2);
        }
        value->numbers.items = items0;
    }
    for (uint32_t i0 = 0; i0 < 3; i0++) {
        value->fixed[i0] = (int32_t)tombolo_get(r, in, at + 24 + i0 * 4);
    }
    {
        tombolo_record list0;
        bool *items0 = (bool *)tombolo_get_list(r, in, at + 40, 1, 9, sizeof(bool), &list0, &value->flags.count);
        for (uint32_t i0 = 0; i0 < value->flags.count && tombolo_is_reading(r); i0++) {
            items0[i0] = tombolo_get_bool(r, list0, list0.start + i0 * 1);
        }
        value->flags.items = items0;
    }
    {
        const tombolo_record record0 = tombolo_get_record(r, in, at + 48);
        testing_entry_get(r, record0, record0.start, &value->entry);
    }
    {
        tombolo_record list0;
        testing_entry *items0 = (testing_entry *)tombolo_get_list(r, in, at + 56, 8, 3, sizeof(testing_entry), &list0, &value->entries.count);
        for (uint32_t i0 = 0; i0 < value->entries.count && tombolo_is_reading(r); i0++) {
            {
                const tombolo_record record1 = tombolo_get_record(r, list0, list0.start + i0 * 8);
                testing_entry_get(r, record1, record1.start, &items0[i0]);
            }
        }
        value->entries.items = items0;
    }
    testing_shape_get(r, in, at + 64, &value->shape);
    {
        tombolo_record list0;
        testing_shape *items0 = (testing_shape *)tombolo_get_list(r, in, at + 80, 16, 3, sizeof(testing_shape), &list0, &value->shapes.count);
        for (uint32_t i0 = 0; i0 < value->shapes.count && tombolo_is_reading(r); i0++) {
            testing_shape_get(r, list0, list0.start + i0 * 16, &items0[i0]);
        }
        value->shapes.items = items0;
    }
    value->maybe.there = tombolo_get_bool(r, in, at + 88);
    if (value->maybe.there) {
        value->maybe.value = (uint64_t)tombolo_get(r, in, at + 88 + 8);
    }
    value->maybe_text.there = tombolo_get_bool(r, in, at + 104);
    if (value->maybe_text.there) {
        value->maybe_text.value = tombolo_get_text(r, in, at + 104 + 8, 8);
    }
    value->maybe_point.there = tombolo_get_bool(r, in, at + 120);
    if (value->maybe_point.there) {
        testing_point_get(r, in, at + 120 + 4, &value->maybe_point.value);
    }
    value->maybe_entry.there = tombolo_get_bool(r, in, at + 136);
    if (value->maybe_entry.there) {
        {
            const tombolo_record record0 = tombolo_get_record(r, in, at + 136 + 8);
            testing_entry_get(r, record0, record0.start, &value->maybe_entry.value);
        }
    }
    for (uint32_t i0 = 0; i0 < 3; i0++) {
        for (uint32_t i1 = 0; i1 < 2; i1++) {
            value->matrix[i0][i1] = (uint8_t)tombolo_get(r, in, at + 152 + i0 * 2 + i1 * 1);
        }
    }
    {
        tombolo_record list0;
        tombolo_list_u32 *items0 = (tombolo_list_u32 *)tombolo_get_list(r, in, at + 160, 8, 3, sizeof(tombolo_list_u32), &list0, &value->nested.count);
        for (uint32_t i0 = 0; i0 < value->nested.count && tombolo_is_reading(r); i0++) {
            {
                tombolo_record list1;
                uint32_t *items1 = (uint32_t *)tombolo_get_list(r, list0, list0.start + i0 * 8, 4, 2, sizeof(uint32_t), &list1, &items0[i0].count);
                for (uint32_t i1 = 0; i1 < items0[i0].count && tombolo_is_reading(r); i1++) {
                    items1[i1] = (uint32_t)tombolo_get(r, list1, list1.start + i1 * 4);
                }
                items0[i0].items = items1;
            }
        }
        value->nested.items = items0;
    }
}

TOMBOLO_OPTIONAL(testing_optional_shape, testing_shape value);

/* The results of a call. */
typedef struct testing_everything_parts_reply {
    testing_entry entry;
    testing_shape shape;
    testing_optional_shape maybe_shape;
} testing_everything_parts_reply;
/* Length of its fields on the wire, in bytes. */
#define TESTING_EVERYTHING_PARTS_REPLY_BYTES 48

static inline void testing_everything_parts_reply_put(tombolo_writer *w, uint32_t at, const testing_everything_parts_reply *value)
{
    testing_entry_put(w, tombolo_put_record(w, at, TESTING_ENTRY_BYTES), &value->entry);
    testing_shape_put(w, at + 8, &value->shape);
    if (value->maybe_shape.there) {
        tombolo_put(w, at + 24, 1, 1);
        testing_shape_put(w, at + 24 + 8, &value->maybe_shape.value);
    }
}

static inline void testing_everything_parts_reply_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_everything_parts_reply *value)
{
    {
        const tombolo_record record0 = tombolo_get_record(r, in, at);
        testing_entry_get(r, record0, record0.start, &value->entry);
    }
    testing_shape_get(r, in, at + 8, &value->shape);
    value->maybe_shape.there = tombolo_get_bool(r, in, at + 24);
    if (value->maybe_shape.there) {
        testing_shape_get(r, in, at + 24 + 8, &value->maybe_shape.value);
    }
}

#define TESTING_FAILURE_REFUSED UINT32_C(1)
#define TESTING_FAILURE_RETRY UINT32_C(2)
#define TESTING_FAILURE_BECAUSE UINT32_C(3)

/* Why a call failed. */
typedef struct testing_failure {
    uint32_t which; /* one of the numbers above; others come from newer peers */
    union {
        uint32_t retry;
        tombolo_text because; /* up to 32 bytes */
    } as;
} testing_failure;

static inline void testing_failure_put(tombolo_writer *w, uint32_t at, const testing_failure *value)
{
    switch (value->which) {
    case TESTING_FAILURE_REFUSED:
        (void)tombolo_put_case(w, at, TESTING_FAILURE_REFUSED, 0);
        break;
    case TESTING_FAILURE_RETRY:
        at = tombolo_put_case(w, at, TESTING_FAILURE_RETRY, 8);
        tombolo_put(w, at, value->as.retry, 4);
        break;
    case TESTING_FAILURE_BECAUSE:
        at = tombolo_put_case(w, at, TESTING_FAILURE_BECAUSE, 8);
        tombolo_put_text(w, at, value->as.because, 32, "Failure.because");
        break;
    default:
        tombolo_put_fail(w, TOMBOLO_OVER_LIMIT, "Failure");
        break;
    }
}

static inline void testing_failure_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_failure *value)
{
    tombolo_record inside;
    value->which = tombolo_get_case(r, in, at, &inside);
    switch (value->which) {
    case TESTING_FAILURE_REFUSED:
        (void)tombolo_get_exactly(r, inside, 0);
        break;
    case TESTING_FAILURE_RETRY:
        if (tombolo_get_exactly(r, inside, 8)) {
            value->as.retry = (uint32_t)tombolo_get(r, inside, inside.start);
        }
        break;
    case TESTING_FAILURE_BECAUSE:
        if (tombolo_get_exactly(r, inside, 8)) {
            value->as.because = tombolo_get_text(r, inside, inside.start, 32);
        }
        break;
    default:
        break;
    }
}

/* The declared error of a call. */
typedef struct testing_everything_parts_error {
    testing_failure error;
} testing_everything_parts_error;
/* Length of its fields on the wire, in bytes. */
#define TESTING_EVERYTHING_PARTS_ERROR_BYTES 16

static inline void testing_everything_parts_error_put(tombolo_writer *w, uint32_t at, const testing_everything_parts_error *value)
{
    testing_failure_put(w, at, &value->error);
}

static inline void testing_everything_parts_error_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_everything_parts_error *value)
{
    testing_failure_get(r, in, at, &value->error);
}

/* The parameters of a message. */
typedef struct testing_everything_drawn {
    testing_shape shape;
} testing_everything_drawn;
/* Length of its fields on the wire, in bytes. */
#define TESTING_EVERYTHING_DRAWN_BYTES 16

static inline void testing_everything_drawn_put(tombolo_writer *w, uint32_t at, const testing_everything_drawn *value)
{
    testing_shape_put(w, at, &value->shape);
}

static inline void testing_everything_drawn_get(tombolo_reader *r, tombolo_record in, uint32_t at, testing_everything_drawn *value)
{
    testing_shape_get(r, in, at, &value->shape);
}

/* --- interface Everything ------------------------------------------------------------------------ */

/* Messages with every type of the language. */
#define TESTING_EVERYTHING_VERSION 1
/* Hash of its package, name and version, which must be the same on both sides. */
#define TESTING_EVERYTHING_HASH UINT64_C(0x0b1c7ef0df4148c5)
/* Hash of all declarations that affect peers; distinguishes builds. */
#define TESTING_EVERYTHING_FINGERPRINT UINT64_C(0xc59ebf719ba11b2f)
/* Maximum memory for the lists of a message, in bytes. */
#define TESTING_EVERYTHING_LIST_BYTES (((8 * sizeof(uint16_t) + 8 + 9 * sizeof(bool) + 8 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(testing_entry) + 8 + 12 * sizeof(testing_point) + 24 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(tombolo_text) + 8 + 3 * sizeof(testing_shape) + 8 + 12 * sizeof(testing_point) + 24 + 9 * sizeof(tombolo_text) + 24 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(tombolo_list_u32) + 8 + 6 * sizeof(uint32_t) + 24) > (4 * sizeof(testing_point) + 8 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(tombolo_text) + 8 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(tombolo_text) + 8) ? (8 * sizeof(uint16_t) + 8 + 9 * sizeof(bool) + 8 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(testing_entry) + 8 + 12 * sizeof(testing_point) + 24 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(tombolo_text) + 8 + 3 * sizeof(testing_shape) + 8 + 12 * sizeof(testing_point) + 24 + 9 * sizeof(tombolo_text) + 24 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(tombolo_list_u32) + 8 + 6 * sizeof(uint32_t) + 24) : (4 * sizeof(testing_point) + 8 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(tombolo_text) + 8 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(tombolo_text) + 8)) > (4 * sizeof(testing_point) + 8 + 3 * sizeof(tombolo_text) + 8) ? ((8 * sizeof(uint16_t) + 8 + 9 * sizeof(bool) + 8 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(testing_entry) + 8 + 12 * sizeof(testing_point) + 24 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(tombolo_text) + 8 + 3 * sizeof(testing_shape) + 8 + 12 * sizeof(testing_point) + 24 + 9 * sizeof(tombolo_text) + 24 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(tombolo_list_u32) + 8 + 6 * sizeof(uint32_t) + 24) > (4 * sizeof(testing_point) + 8 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(tombolo_text) + 8 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(tombolo_text) + 8) ? (8 * sizeof(uint16_t) + 8 + 9 * sizeof(bool) + 8 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(testing_entry) + 8 + 12 * sizeof(testing_point) + 24 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(tombolo_text) + 8 + 3 * sizeof(testing_shape) + 8 + 12 * sizeof(testing_point) + 24 + 9 * sizeof(tombolo_text) + 24 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(tombolo_list_u32) + 8 + 6 * sizeof(uint32_t) + 24) : (4 * sizeof(testing_point) + 8 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(tombolo_text) + 8 + 4 * sizeof(testing_point) + 8 + 3 * sizeof(tombolo_text) + 8)) : (4 * sizeof(testing_point) + 8 + 3 * sizeof(tombolo_text) + 8))

/* Returns the options of its channels, for tombolo_connect and tombolo_export. */
static inline tombolo_options testing_everything_options(void)
{
    tombolo_options options = {0, 0, 0, 0, 0, 0};
    options.interface_hash = TESTING_EVERYTHING_HASH;
    return options;
}

/* --- client of Everything ------------------------------------------------------------------------ */

/* Handlers of the server's one-way messages; null to ignore a message. */
typedef struct testing_everything_events {
    /* An event with a shape. */
    void (*drawn)(void *context, const testing_everything_drawn *event);
} testing_everything_events;

/* The calling end of a channel. */
typedef struct testing_everything_client {
    tombolo_client base; /* base.port.counts has the counters */
    const testing_everything_events *events;
    void *context;
} testing_everything_client;

/* Handles a one-way message. Returns false if its ordinal is unknown. */
static inline bool testing_everything_client_event(
    tombolo_client *base, uint16_t ordinal, tombolo_reader *r, tombolo_record body)
{
    testing_everything_client *client = (testing_everything_client *)(void *)base;
    switch (ordinal) {
    case 8: {
        testing_everything_drawn event;
        memset(&event, 0, sizeof event);
        testing_everything_drawn_get(r, body, body.start, &event);
        if (tombolo_is_reading(r) && client->events != NULL && client->events->drawn != NULL) {
            client->events->drawn(client->context, &event);
        }
        return true;
    }
    default:
        return false;
    }
}

/* Returns the memory that a client of this channel needs, in bytes. */
static inline size_t testing_everything_client_memory(const tombolo_channel *channel)
{
    return tombolo_port_memory(channel, TESTING_EVERYTHING_LIST_BYTES);
}

/* Creates a client on an open channel, in memory of the caller. Both must outlive it. Less memory than
 * testing_everything_client_memory() returns suffices as long as the lists of every message fit. */
static inline tombolo_status testing_everything_client_bind(
    testing_everything_client *client, tombolo_channel *channel, void *memory, size_t bytes, const testing_everything_events *events, void *context)
{
    const tombolo_needs needs = {false, false, 176};
    memset(client, 0, sizeof *client);
    client->base.on_event = testing_everything_client_event;
    client->events = events;
    client->context = context;
    return tombolo_port_bind(&client->base.port, channel, memory, bytes, needs);
}

/* Waits for a one-way message and handles all that have arrived. Returns TOMBOLO_TIMED_OUT if there was none. */
static inline tombolo_status testing_everything_client_poll(
    testing_everything_client *client, uint64_t timeout_ns)
{
    return tombolo_client_poll(&client->base, timeout_ns);
}

/* Returns the numbers unchanged. */
/* Idempotent: it may be repeated if it is unknown whether it was served. */
static inline tombolo_status testing_everything_call_numbers(
    testing_everything_client *client, const testing_everything_numbers_request *request, testing_everything_numbers_reply *reply, uint64_t timeout_ns)
{
    tombolo_reader r;
    tombolo_record body;
    tombolo_status status;
    tombolo_writer w = tombolo_client_begin(&client->base, 1, TOMBOLO_CALL, TESTING_EVERYTHING_NUMBERS_REQUEST_BYTES);
    testing_everything_numbers_request_put(&w, TOMBOLO_HEADER_BYTES, request);
    status = tombolo_client_call(&client->base, &w, 1, false, timeout_ns, &r, &body);
    if (status == TOMBOLO_OK) {
        memset(reply, 0, sizeof *reply);
        testing_everything_numbers_reply_get(&r, body, body.start, reply);
    }
    return tombolo_client_read(&client->base, &r, status);
}

/* Exchanges text, bytes and composite types. */
/* Returns TOMBOLO_DECLINED if the server declined it; `error` has the reason. */
static inline tombolo_status testing_everything_call_parts(
    testing_everything_client *client, const testing_everything_parts_request *request, testing_everything_parts_reply *reply, testing_failure *error, uint64_t timeout_ns)
{
    tombolo_reader r;
    tombolo_record body;
    tombolo_status status;
    tombolo_writer w = tombolo_client_begin(&client->base, 2, TOMBOLO_CALL, TESTING_EVERYTHING_PARTS_REQUEST_BYTES);
    testing_everything_parts_request_put(&w, TOMBOLO_HEADER_BYTES, request);
    status = tombolo_client_call(&client->base, &w, 2, true, timeout_ns, &r, &body);
    if (status == TOMBOLO_OK) {
        memset(reply, 0, sizeof *reply);
        testing_everything_parts_reply_get(&r, body, body.start, reply);
    }
    if (status == TOMBOLO_DECLINED) {
        testing_everything_parts_error declined;
        memset(&declined, 0, sizeof declined);
        testing_everything_parts_error_get(&r, body, body.start, &declined);
        *error = declined.error;
    }
    return tombolo_client_read(&client->base, &r, status);
}

/* Sends nothing and returns nothing. */
/* Idempotent: it may be repeated if it is unknown whether it was served. */
static inline tombolo_status testing_everything_call_null(
    testing_everything_client *client, uint64_t timeout_ns)
{
    tombolo_reader r;
    tombolo_record body;
    tombolo_status status;
    tombolo_writer w = tombolo_client_begin(&client->base, 3, TOMBOLO_CALL, 0);
    status = tombolo_client_call(&client->base, &w, 3, false, timeout_ns, &r, &body);
    return tombolo_client_read(&client->base, &r, status);
}

/* A message without content. */
/* One-way. Returns TOMBOLO_NO_ROOM if it was not sent. */
static inline tombolo_status testing_everything_send_poke(
    testing_everything_client *client, uint64_t timeout_ns)
{
    tombolo_writer w = tombolo_client_begin(&client->base, 7, TOMBOLO_MESSAGE, 0);
    return tombolo_port_send(&client->base.port, &w, timeout_ns);
}

/* --- server of Everything ------------------------------------------------------------------------ */

/* Handlers. That of a call fills in the reply and returns TOMBOLO_OK, or fills in the error and returns TOMBOLO_DECLINED,
 * or keeps `pending` for an answer later and returns TOMBOLO_LATER. With any other status, or a null handler, it is not
 * served. The request and its texts are valid until the handler returns; what the reply refers to, until it is sent. */
typedef struct testing_everything_handler {
    /* Returns the numbers unchanged. */
    tombolo_status (*numbers)(void *context, tombolo_pending pending, const testing_everything_numbers_request *request, testing_everything_numbers_reply *reply);
    /* Exchanges text, bytes and composite types. */
    tombolo_status (*parts)(void *context, tombolo_pending pending, const testing_everything_parts_request *request, testing_everything_parts_reply *reply, testing_failure *error);
    /* Sends nothing and returns nothing. */
    tombolo_status (*null)(void *context, tombolo_pending pending);
    /* A message without content. */
    void (*poke)(void *context);
} testing_everything_handler;

/* The serving end of a channel. */
typedef struct testing_everything_server {
    tombolo_server base; /* base.port.counts has the counters */
    const testing_everything_handler *handler;
    void *context;
} testing_everything_server;

/* Returns the memory that a server of this channel needs, in bytes. */
static inline size_t testing_everything_server_memory(const tombolo_channel *channel)
{
    return tombolo_port_memory(channel, TESTING_EVERYTHING_LIST_BYTES);
}

/* Creates a server on an open channel, in memory of the caller. Both must outlive it. Less memory than
 * testing_everything_server_memory() returns suffices as long as the lists of every message fit. */
static inline tombolo_status testing_everything_server_bind(
    testing_everything_server *server, tombolo_channel *channel, void *memory, size_t bytes, const testing_everything_handler *handler, void *context)
{
    const tombolo_needs needs = {false, false, 176};
    memset(server, 0, sizeof *server);
    server->handler = handler;
    server->context = context;
    return tombolo_port_bind(&server->base.port, channel, memory, bytes, needs);
}

/* Answers a kept call of `numbers`: with the reply for TOMBOLO_OK, otherwise as not served or refused.
 * Returns TOMBOLO_NOT_OUTSTANDING if the client no longer waits for it. */
static inline tombolo_status testing_everything_answer_numbers(
    testing_everything_server *server, tombolo_pending pending, tombolo_status result, const testing_everything_numbers_reply *reply)
{
    if (pending.ordinal != 1 || !tombolo_server_forget(&server->base, pending)) {
        return tombolo_explain(TOMBOLO_NOT_OUTSTANDING, "the client no longer waits for the answer");
    }
    if (result == TOMBOLO_OK) {
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_REPLY, TESTING_EVERYTHING_NUMBERS_REPLY_BYTES);
        testing_everything_numbers_reply_put(&w, TOMBOLO_HEADER_BYTES, reply);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    return tombolo_server_fault(&server->base, pending, tombolo_server_why(result));
}

/* Answers a kept call of `parts`: with the reply for TOMBOLO_OK, with the error for TOMBOLO_DECLINED, otherwise as not served or refused.
 * Returns TOMBOLO_NOT_OUTSTANDING if the client no longer waits for it. */
static inline tombolo_status testing_everything_answer_parts(
    testing_everything_server *server, tombolo_pending pending, tombolo_status result, const testing_everything_parts_reply *reply, const testing_failure *error)
{
    if (pending.ordinal != 2 || !tombolo_server_forget(&server->base, pending)) {
        return tombolo_explain(TOMBOLO_NOT_OUTSTANDING, "the client no longer waits for the answer");
    }
    if (result == TOMBOLO_OK) {
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_REPLY, TESTING_EVERYTHING_PARTS_REPLY_BYTES);
        testing_everything_parts_reply_put(&w, TOMBOLO_HEADER_BYTES, reply);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    if (result == TOMBOLO_DECLINED) {
        testing_everything_parts_error declined;
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_ERROR, TESTING_EVERYTHING_PARTS_ERROR_BYTES);
        declined.error = *error;
        testing_everything_parts_error_put(&w, TOMBOLO_HEADER_BYTES, &declined);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    return tombolo_server_fault(&server->base, pending, tombolo_server_why(result));
}

/* Answers a kept call of `null`: with the reply for TOMBOLO_OK, otherwise as not served or refused.
 * Returns TOMBOLO_NOT_OUTSTANDING if the client no longer waits for it. */
static inline tombolo_status testing_everything_answer_null(
    testing_everything_server *server, tombolo_pending pending, tombolo_status result)
{
    if (pending.ordinal != 3 || !tombolo_server_forget(&server->base, pending)) {
        return tombolo_explain(TOMBOLO_NOT_OUTSTANDING, "the client no longer waits for the answer");
    }
    if (result == TOMBOLO_OK) {
        tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_REPLY, 0);
        return tombolo_server_answer(&server->base, pending, &w);
    }
    return tombolo_server_fault(&server->base, pending, tombolo_server_why(result));
}

/* An event with a shape. */
/* One-way. Returns TOMBOLO_NO_ROOM if it was not sent. */
static inline tombolo_status testing_everything_send_drawn(
    testing_everything_server *server, const testing_everything_drawn *message, uint64_t timeout_ns)
{
    const tombolo_pending none = {0, 8};
    tombolo_writer w = tombolo_server_begin(&server->base, none, TOMBOLO_MESSAGE, TESTING_EVERYTHING_DRAWN_BYTES);
    testing_everything_drawn_put(&w, TOMBOLO_HEADER_BYTES, message);
    return tombolo_port_send(&server->base.port, &w, timeout_ns);
}

/* Waits for one message and serves it. Returns TOMBOLO_TIMED_OUT if there was none, TOMBOLO_CLOSED or TOMBOLO_PEER_DIED
 * if the client is gone, and TOMBOLO_NO_ROOM if it does not take its answers: close the channel then. */
static inline tombolo_status testing_everything_serve(testing_everything_server *server, uint64_t timeout_ns)
{
    tombolo_pending pending = {0, 0};
    tombolo_reader r;
    tombolo_record body;
    uint8_t kind;
    tombolo_status status = tombolo_server_receive(&server->base, timeout_ns, &kind, &pending, &r, &body);
    if (status != TOMBOLO_OK || kind == 0) {
        return status;
    }
    status = TOMBOLO_UNSERVED; /* unless a handler serves it */
    if (kind == TOMBOLO_MESSAGE) {
        switch (pending.ordinal) {
        case 7: {
            if (server->handler->poke != NULL) {
                server->handler->poke(server->context);
            }
            return tombolo_server_took(&server->base, &r, true);
        }
        default:
            return tombolo_server_took(&server->base, &r, false);
        }
    }
    switch (pending.ordinal) {
    case 1: {
        testing_everything_numbers_request request;
        testing_everything_numbers_reply reply;
        memset(&request, 0, sizeof request);
        memset(&reply, 0, sizeof reply);
        testing_everything_numbers_request_get(&r, body, body.start, &request);
        if (!tombolo_is_reading(&r)) {
            return tombolo_server_fault(&server->base, pending, 2);
        }
        (void)tombolo_server_keep(&server->base, pending);
        if (server->handler->numbers != NULL) {
            status = server->handler->numbers(server->context, pending, &request, &reply);
        }
        if (status == TOMBOLO_LATER) {
            return TOMBOLO_OK;
        }
        return testing_everything_answer_numbers(server, pending, status, &reply);
    }
    case 2: {
        testing_everything_parts_request request;
        testing_everything_parts_reply reply;
        testing_failure error;
        memset(&request, 0, sizeof request);
        memset(&reply, 0, sizeof reply);
        memset(&error, 0, sizeof error);
        testing_everything_parts_request_get(&r, body, body.start, &request);
        if (!tombolo_is_reading(&r)) {
            return tombolo_server_fault(&server->base, pending, 2);
        }
        (void)tombolo_server_keep(&server->base, pending);
        if (server->handler->parts != NULL) {
            status = server->handler->parts(server->context, pending, &request, &reply, &error);
        }
        if (status == TOMBOLO_LATER) {
            return TOMBOLO_OK;
        }
        return testing_everything_answer_parts(server, pending, status, &reply, &error);
    }
    case 3: {
        (void)tombolo_server_keep(&server->base, pending);
        if (server->handler->null != NULL) {
            status = server->handler->null(server->context, pending);
        }
        if (status == TOMBOLO_LATER) {
            return TOMBOLO_OK;
        }
        return testing_everything_answer_null(server, pending, status);
    }
    default:
        return tombolo_server_fault(&server->base, pending, 1);
    }
}

#ifdef __cplusplus
}
#endif

#endif
