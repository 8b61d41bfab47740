/* Files that a job was granted, in C: `data` to read, `out` to write. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tombolo/files.h>

#define LONG_BYTES 3000077u

/* Exits the program if a condition does not hold. */
#define EXPECT(what)                                                                              \
    do {                                                                                          \
        if (!(what)) {                                                                            \
            fprintf(stderr, "line %d: not %s: %s\n", __LINE__, #what, tombolo_last_error());      \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

#define EXPECT_OK(what) EXPECT((what) == TOMBOLO_OK)

static unsigned char pattern(size_t at)
{
    return (unsigned char)(at * 31u ^ at >> 8);
}

/* Adds a name to a text. */
static tombolo_status append_name(void *context, const char *name, bool is_folder)
{
    char *text = context;
    size_t length = strlen(text);
    snprintf(text + length, 200 - length, "%s%s ", name, is_folder ? "/" : "");
    return TOMBOLO_OK;
}

static tombolo_status count_and_stop(void *context, const char *name, bool is_folder)
{
    (void)name;
    (void)is_folder;
    ++*(int *)context;
    return TOMBOLO_DECLINED;
}

static void test_list_and_stat(const tombolo_files *files)
{
    char names[200] = "";
    int visits = 0;
    tombolo_file_info info;
    EXPECT_OK(tombolo_files_list(files, "", append_name, names));
    EXPECT(strcmp(names, "data/ out/ ") == 0);
    names[0] = '\0';
    EXPECT_OK(tombolo_files_list(files, "data", append_name, names));
    EXPECT(strcmp(names, "below/ hello \303\256le ") == 0);
    EXPECT(tombolo_files_list(files, "data", count_and_stop, &visits) == TOMBOLO_DECLINED && visits == 1);
    EXPECT_OK(tombolo_files_stat(files, "data/hello", &info));
    EXPECT(info.length == 27 && !info.is_folder && !info.writable && info.modified_ns > 0);
    EXPECT_OK(tombolo_files_stat(files, "out", &info));
    EXPECT(info.is_folder && info.writable && info.length == 0);
}

static void test_read_and_write(const tombolo_files *files)
{
    unsigned char *written = malloc(LONG_BYTES), *read_back = malloc(LONG_BYTES);
    char some[8];
    uint64_t length = 0;
    size_t count = 0;
    tombolo_file *file = NULL;
    EXPECT(written != NULL && read_back != NULL);
    for (size_t at = 0; at < LONG_BYTES; at++)
        written[at] = pattern(at);
    EXPECT_OK(tombolo_file_open(files, "data/hello", 0, &file));
    EXPECT_OK(tombolo_file_read(file, 6, some, sizeof some, &count));
    EXPECT(count == 8 && memcmp(some, "from the", 8) == 0);
    EXPECT_OK(tombolo_file_read(file, 24, some, sizeof some, &count));
    EXPECT(count == 3);
    EXPECT(tombolo_file_read(file, 24, some, sizeof some, NULL) == TOMBOLO_FILE_ENDED);
    EXPECT_OK(tombolo_file_read(file, 19, some, sizeof some, NULL));
    EXPECT(tombolo_file_write(file, 0, "x", 1) == TOMBOLO_NOT_GRANTED);
    tombolo_file_close(file);
    EXPECT_OK(tombolo_file_open(files, "out/large", TOMBOLO_FILE_CREATE | TOMBOLO_FILE_TRUNCATE, &file));
    EXPECT_OK(tombolo_file_write(file, 0, written, LONG_BYTES));
    EXPECT_OK(tombolo_file_sync(file));
    EXPECT_OK(tombolo_file_length(file, &length));
    EXPECT(length == LONG_BYTES);
    EXPECT_OK(tombolo_file_read(file, 0, read_back, LONG_BYTES, NULL));
    EXPECT(memcmp(written, read_back, LONG_BYTES) == 0);
    EXPECT_OK(tombolo_file_set_length(file, 4096));
    tombolo_file_close(file);
    free(written);
    free(read_back);
}

static void test_maps(const tombolo_files *files)
{
    tombolo_file *file = NULL;
    tombolo_file_map *map = NULL;
    void *place = NULL;
    unsigned char bytes[4];
    EXPECT_OK(tombolo_file_open(files, "out/large", TOMBOLO_FILE_WRITE, &file));
    EXPECT_OK(tombolo_file_bring(file, 96, TOMBOLO_TO_THE_END, &map));
    EXPECT(tombolo_file_map_length(map) == 4000);
    const unsigned char *data = tombolo_file_map_data(map);
    for (size_t at = 0; at < 4000; at++)
        EXPECT(data[at] == pattern(at + 96));
    EXPECT(tombolo_file_map_change(map, 3999, 2, &place) == TOMBOLO_OUT_OF_RANGE);
    EXPECT(tombolo_file_map_change(map, SIZE_MAX, 2, &place) == TOMBOLO_OUT_OF_RANGE);
    EXPECT_OK(tombolo_file_map_change(map, 3996, 4, &place));
    memcpy(place, "ends", 4);
    EXPECT(memcmp(data + 3996, "ends", 4) == 0);
    EXPECT_OK(tombolo_file_map_flush(map));
    tombolo_file_map_drop(map);
    EXPECT_OK(tombolo_file_read(file, 4092, bytes, sizeof bytes, NULL));
    EXPECT(memcmp(bytes, "ends", 4) == 0);
    EXPECT(tombolo_file_bring(file, 4090, 10, &map) == TOMBOLO_FILE_ENDED);
    EXPECT_OK(tombolo_file_bring(file, 5000, TOMBOLO_TO_THE_END, &map));
    EXPECT(tombolo_file_map_length(map) == 0);
    tombolo_file_map_drop(map);
    tombolo_file_close(file);
}

static void test_refusals(const tombolo_domain *domain, const tombolo_files *files)
{
    static const struct {
        const char *path;
        uint32_t flags;
        tombolo_status status;
    } refused[] = {
        {"data/none", 0, TOMBOLO_NO_SUCH_FILE},
        {"data/hello", TOMBOLO_FILE_WRITE, TOMBOLO_NOT_GRANTED},
        {"secret", 0, TOMBOLO_NOT_GRANTED},
        {"data/../secret", 0, TOMBOLO_NOT_GRANTED},
        {"data/below", 0, TOMBOLO_IS_FOLDER},
        {"data/hello/x", 0, TOMBOLO_NOT_FOLDER},
        {"out/large", TOMBOLO_FILE_CREATE_NEW, TOMBOLO_FILE_EXISTS},
        {"out/large", 16, TOMBOLO_INVALID_ARGUMENT},
        {"\377", 0, TOMBOLO_INVALID_ARGUMENT},
        {NULL, 0, TOMBOLO_INVALID_ARGUMENT},
    };
    tombolo_file *file = NULL;
    tombolo_files *other_files = NULL;
    tombolo_file_info info;
    tombolo_files_options options = {.buffers = 1};
    for (size_t at = 0; at < sizeof refused / sizeof *refused; at++) {
        tombolo_status status = tombolo_file_open(files, refused[at].path, refused[at].flags, &file);
        if (status != refused[at].status) {
            fprintf(stderr, "%zu: %s: %s\n", at, tombolo_error_name(status), tombolo_last_error());
            exit(1);
        }
    }
    EXPECT(file == NULL);
    EXPECT(tombolo_files_stat(files, "data/none", &info) == TOMBOLO_NO_SUCH_FILE);
    EXPECT(strstr(tombolo_last_error(), "data/none") != NULL);
    EXPECT(tombolo_files_list(files, "data/hello", append_name, NULL) == TOMBOLO_NOT_FOLDER);
    EXPECT(tombolo_files_list(files, "data", NULL, NULL) == TOMBOLO_INVALID_ARGUMENT);
    EXPECT(tombolo_files_reach(domain, &options, &other_files) == TOMBOLO_INVALID_ARGUMENT);
    options = (tombolo_files_options){.name = "nobody", .timeout_ns = TOMBOLO_MILLISECOND};
    EXPECT(tombolo_files_reach(domain, &options, &other_files) == TOMBOLO_NOT_GRANTED);
    EXPECT(other_files == NULL);
    tombolo_file_close(NULL);
    tombolo_files_drop(NULL);
    tombolo_file_map_drop(NULL);
    EXPECT(tombolo_file_map_data(NULL) == NULL && tombolo_file_map_length(NULL) == 0);
}

int main(void)
{
    tombolo_domain *domain = NULL;
    tombolo_files *files = NULL, *small = NULL;
    tombolo_files_options options = {.buffer_bytes = 4096, .buffers = 2, .timeout_ns = 100 * TOMBOLO_SECOND};
    EXPECT_OK(tombolo_attach(&domain));
    EXPECT_OK(tombolo_files_reach(domain, NULL, &files));
    test_list_and_stat(files);
    test_read_and_write(files);
    test_maps(files);
    test_refusals(domain, files);
    EXPECT_OK(tombolo_files_reach(domain, &options, &small));
    tombolo_files_drop(files);
    test_read_and_write(small);
    tombolo_files_drop(small);
    printf("all of it on %s\n", tombolo_node_name(domain));
    tombolo_detach(domain);
    return 0;
}
