/* Every type of C that means the same on all of our processors, one by one and in types made of them, to and fro. `long double`
   is not among them: it has 80 bits on one and 128 on another. */
#include "check.h"

#include <complex.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#define COUNT 37

/* Sends COUNT values to the next rank and compares what comes from the one before. */
#define TRY(type, mpi, value)                                                                                          \
    do {                                                                                                               \
        type sent[COUNT], received[COUNT];                                                                             \
        memset(received, 0, sizeof received);                                                                          \
        for (int i = 0; i < COUNT; i++) {                                                                              \
            int of = rank;                                                                                             \
            sent[i] = (type)(value);                                                                                   \
        }                                                                                                              \
        MPI_Sendrecv(sent, COUNT, mpi, next, 1, received, COUNT, mpi, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);   \
        for (int i = 0; i < COUNT; i++) {                                                                              \
            int of = before;                                                                                           \
            CHECK(received[i] == (type)(value), #mpi " %d", i);                                                        \
        }                                                                                                              \
    } while (0)

static int next, before;

static void basic_types(void)
{
    TRY(char, MPI_CHAR, 'a' + (i + of) % 26);
    TRY(signed char, MPI_SIGNED_CHAR, -i - of);
    TRY(unsigned char, MPI_UNSIGNED_CHAR, 200 + i + of);
    TRY(short, MPI_SHORT, -300 * i - of);
    TRY(unsigned short, MPI_UNSIGNED_SHORT, 60000 + i + of);
    TRY(int, MPI_INT, -100000 * i - of);
    TRY(unsigned, MPI_UNSIGNED, 4000000000U + (unsigned)(i + of));
    TRY(long, MPI_LONG, -10000000000L * i - of);
    TRY(unsigned long, MPI_UNSIGNED_LONG, 10000000000000000000UL + (unsigned long)(i + of));
    TRY(long long, MPI_LONG_LONG, -10000000000LL * i - of);
    TRY(unsigned long long, MPI_UNSIGNED_LONG_LONG, 1ULL << (i + of));
    TRY(float, MPI_FLOAT, 0.25f * i + of);
    TRY(double, MPI_DOUBLE, 1e300 / (i + 1) + of);
    TRY(wchar_t, MPI_WCHAR, 0x3042 + i + of);
    TRY(_Bool, MPI_C_BOOL, (i + of) % 2);
    TRY(int8_t, MPI_INT8_T, -i - of);
    TRY(int16_t, MPI_INT16_T, -300 * i - of);
    TRY(int32_t, MPI_INT32_T, -70000 * i - of);
    TRY(int64_t, MPI_INT64_T, -(1LL << 40) * i - of);
    TRY(uint8_t, MPI_UINT8_T, 200 + i + of);
    TRY(uint16_t, MPI_UINT16_T, 60000 + i + of);
    TRY(uint32_t, MPI_UINT32_T, 4000000000U + (unsigned)(i + of));
    TRY(uint64_t, MPI_UINT64_T, UINT64_MAX - (unsigned)(i + of));
    TRY(float complex, MPI_C_FLOAT_COMPLEX, i + of * I);
    TRY(double complex, MPI_C_DOUBLE_COMPLEX, of - i * I);
    TRY(MPI_Aint, MPI_AINT, -(1L << 33) * i - of);
    TRY(MPI_Offset, MPI_OFFSET, (1LL << 50) + i + of);
    TRY(MPI_Count, MPI_COUNT, (1LL << 51) + i + of);
}

struct record {
    char letter;
    double value;
    short small[3];
    int64_t number;
};

static void made_types(void)
{
    struct record sent[COUNT], received[COUNT];
    int lengths[] = {1, 1, 3, 1};
    MPI_Aint places[] = {offsetof(struct record, letter), offsetof(struct record, value), offsetof(struct record, small),
                         offsetof(struct record, number)};
    MPI_Datatype parts[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_INT64_T}, packed, record;
    MPI_Type_create_struct(4, lengths, places, parts, &packed);
    MPI_Type_create_resized(packed, 0, sizeof(struct record), &record);
    MPI_Type_commit(&record);
    memset(received, 0, sizeof received);
    for (int i = 0; i < COUNT; i++)
        sent[i] = (struct record){(char)('a' + rank), i + 0.5, {(short)i, (short)-i, (short)rank}, (int64_t)i << 40};
    MPI_Sendrecv(sent, COUNT, record, next, 2, received, COUNT, record, before, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < COUNT; i++)
        CHECK(received[i].letter == 'a' + before && received[i].value == i + 0.5 && received[i].small[1] == -i &&
                  received[i].small[2] == before && received[i].number == (int64_t)i << 40,
              "record %d", i);
    MPI_Type_free(&record);
    MPI_Type_free(&packed);

    /* A column of a matrix becomes a row of another: types differ at the two ends. */
    enum { ROWS = 300, COLUMNS = 50 };
    static int matrix[ROWS][COLUMNS], row[ROWS];
    MPI_Datatype column;
    MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &column);
    MPI_Type_commit(&column);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            matrix[i][j] = rank * 1000000 + i * 100 + j;
    MPI_Sendrecv(&matrix[0][7], 1, column, next, 3, row, ROWS, MPI_INT, before, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < ROWS; i++)
        CHECK(row[i] == before * 1000000 + i * 100 + 7, "column, row %d", i);
    MPI_Type_free(&column);

    /* A few of them, of elements that MPICH would send in pieces. */
    struct { float value; int place; } pairs[6], got[6] = {0};
    MPI_Datatype few;
    MPI_Type_vector(3, 1, 2, MPI_FLOAT_INT, &few);
    MPI_Type_commit(&few);
    for (int i = 0; i < 6; i++) {
        pairs[i].value = (float)(rank + i);
        pairs[i].place = i + 1;
    }
    MPI_Sendrecv(pairs, 1, few, next, 6, got, 1, few, before, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 6; i++)
        CHECK(got[i].place == (i % 2 ? 0 : i + 1) && got[i].value == (i % 2 ? 0.f : (float)(before + i)), "pair %d", i);
    MPI_Type_free(&few);

    /* Part of a matrix, by sub-array. */
    MPI_Datatype part;
    MPI_Type_create_subarray(2, (int[]){ROWS, COLUMNS}, (int[]){200, 20}, (int[]){50, 10}, MPI_ORDER_C, MPI_INT, &part);
    MPI_Type_commit(&part);
    static int other[ROWS][COLUMNS];
    MPI_Sendrecv(matrix, 1, part, next, 4, other, 1, part, before, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            int inside = i >= 50 && i < 250 && j >= 10 && j < 30;
            CHECK(other[i][j] == (inside ? before * 1000000 + i * 100 + j : 0), "part, %d %d", i, j);
        }
    MPI_Type_free(&part);

    /* Packed by one, and taken out by another. */
    char bytes[256];
    int at = 0, number = rank + 5, got_number;
    double value = rank + 0.25, got_value;
    MPI_Pack(&number, 1, MPI_INT, bytes, sizeof bytes, &at, MPI_COMM_WORLD);
    MPI_Pack(&value, 1, MPI_DOUBLE, bytes, sizeof bytes, &at, MPI_COMM_WORLD);
    MPI_Sendrecv_replace(bytes, sizeof bytes, MPI_PACKED, next, 5, before, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    at = 0;
    MPI_Unpack(bytes, sizeof bytes, &at, &got_number, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Unpack(bytes, sizeof bytes, &at, &got_value, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    CHECK(got_number == before + 5 && got_value == before + 0.25, "packed %d %g", got_number, got_value);
}

int main(int count, char **words)
{
    begin(&count, &words);
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    basic_types();
    made_types();
    return end("datatypes");
}
