/* Decodes messages and encodes them again, for comparison with Rust byte by byte.
 *
 * Standard input: kind of record (1 byte), length (4, little-endian), message; and so on. Output: status (4), length (4), message. */
#include <stdio.h>
#include <stdlib.h>

#include "everything.h"
#include "kv.h"

static uint8_t lists[1 << 16];
static uint8_t written[1 << 17];

#define ROUND_TRIP(record, bytes)                                                               \
    do {                                                                                        \
        record value;                                                                           \
        memset(&value, 0, sizeof value);                                                        \
        record##_get(&r, body, body.start, &value);                                             \
        if (tombolo_is_reading(&r)) {                                                           \
            w = tombolo_write(written, sizeof written, header, bytes);                          \
            record##_put(&w, TOMBOLO_HEADER_BYTES, &value);                                     \
        }                                                                                       \
    } while (0)

static void write_u32(uint32_t number)
{
    uint8_t bytes[4];
    tombolo_store_le(bytes, number, 4);
    fwrite(bytes, 1, sizeof bytes, stdout);
}

static void round_trip(uint8_t record_kind, const uint8_t *message, size_t length)
{
    tombolo_memory memory = {lists, sizeof lists, 0};
    tombolo_header header;
    tombolo_record body;
    tombolo_reader r = tombolo_read(message, length, &memory, &header, &body);
    tombolo_writer w = tombolo_write(written, sizeof written, header, 0);
    tombolo_status status;
    switch (record_kind) {
    case 0:
        ROUND_TRIP(testing_everything_parts_request, TESTING_EVERYTHING_PARTS_REQUEST_BYTES);
        break;
    case 1:
        ROUND_TRIP(testing_everything_parts_reply, TESTING_EVERYTHING_PARTS_REPLY_BYTES);
        break;
    case 2:
        ROUND_TRIP(testing_everything_numbers_request, TESTING_EVERYTHING_NUMBERS_REQUEST_BYTES);
        break;
    case 3:
        ROUND_TRIP(example_kv_put_request, EXAMPLE_KV_PUT_REQUEST_BYTES);
        break;
    default:
        ROUND_TRIP(example_kv_list_reply, EXAMPLE_KV_LIST_REPLY_BYTES);
        break;
    }
    status = r.status != TOMBOLO_OK ? r.status : w.status;
    write_u32((uint32_t)status);
    write_u32(status == TOMBOLO_OK ? w.next : 0);
    fwrite(written, 1, status == TOMBOLO_OK ? w.next : 0, stdout);
}

int main(void)
{
    uint8_t head[5];
    while (fread(head, 1, sizeof head, stdin) == sizeof head) {
        const size_t length = head[1] | (size_t)head[2] << 8 | (size_t)head[3] << 16 | (size_t)head[4] << 24;
        /* Allocated with exactly this length, so that a read past its end is detected. */
        uint8_t *message = (uint8_t *)malloc(length == 0 ? 1 : length);
        if (message == NULL || fread(message, 1, length, stdin) != length) {
            return 1;
        }
        round_trip(head[0], message, length);
        free(message);
    }
    return 0;
}
