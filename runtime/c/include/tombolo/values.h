/*
 * Encoding of the values of hubs and tasks: numbers are little-endian, a text is UTF-8 without a terminator, a tuple is its values,
 * each preceded by its length in 4 bytes. The encoding does not depend on the processor.
 */
#ifndef TOMBOLO_VALUES_H
#define TOMBOLO_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a number of 1, 2, 4 or 8 bytes and returns that size. */
static inline size_t tombolo_value_put_number(void *to, uint64_t number, size_t bytes)
{
    for (size_t byte = 0; byte < bytes; byte++) {
        ((uint8_t *)to)[byte] = (uint8_t)(number >> (8 * byte));
    }
    return bytes;
}

/* Reads an unsigned number. */
static inline uint64_t tombolo_value_number(const void *from, size_t bytes)
{
    uint64_t number = 0;
    while (bytes > 0) {
        bytes--;
        number = number << 8 | ((const uint8_t *)from)[bytes];
    }
    return number;
}

/* Reads a signed number. */
static inline int64_t tombolo_value_signed(const void *from, size_t bytes)
{
    const uint64_t number = tombolo_value_number(from, bytes);
    const uint64_t sign = UINT64_C(1) << (8 * bytes - 1);
    const uint64_t value = (number ^ sign) - sign;
    int64_t result;
    memcpy(&result, &value, sizeof result);
    return result;
}

static inline size_t tombolo_value_put_f64(void *to, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return tombolo_value_put_number(to, bits, sizeof bits);
}

static inline double tombolo_value_f64(const void *from)
{
    const uint64_t bits = tombolo_value_number(from, sizeof bits);
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Writes a value of a tuple and returns the bytes written: 4 more than its length. */
static inline size_t tombolo_value_put_field(void *to, const void *field, size_t length)
{
    tombolo_value_put_number(to, length, 4);
    if (length > 0) {
        memcpy((uint8_t *)to + 4, field, length);
    }
    return 4 + length;
}

/* Unread rest of a tuple. */
typedef struct tombolo_tuple {
    const uint8_t *next;
    size_t left;
} tombolo_tuple;

static inline tombolo_tuple tombolo_tuple_of(const void *bytes, size_t length)
{
    tombolo_tuple tuple;
    tuple.next = (const uint8_t *)bytes;
    tuple.left = length;
    return tuple;
}

/* Returns the next value and its length; null and 0 at the end, or if the value is truncated. */
static inline const uint8_t *tombolo_tuple_next(tombolo_tuple *tuple, size_t *length)
{
    const uint8_t *field;
    *length = 0;
    if (tuple->left < 4 || tombolo_value_number(tuple->next, 4) > tuple->left - 4) {
        return NULL;
    }
    *length = (size_t)tombolo_value_number(tuple->next, 4);
    field = tuple->next + 4;
    tuple->next = field + *length;
    tuple->left -= 4 + *length;
    return field;
}

#ifdef __cplusplus
}
#endif

#endif
