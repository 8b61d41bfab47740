/*
 * Files that were granted to this program's job (`tombolo run --grant`), which are elsewhere: on whatever node it runs.
 *
 * A connection to their server is a tombolo_files; files that are open refer to it, and it may be given back before them.
 * Both may be used by several threads, which take turns. No operation takes longer than the timeout of the connection.
 *
 * What cannot be done to a file is told by these statuses, and tombolo_last_error() says to which and why:
 * TOMBOLO_NOT_GRANTED, TOMBOLO_NO_SUCH_FILE, TOMBOLO_FILE_EXISTS, TOMBOLO_IS_FOLDER, TOMBOLO_NOT_FOLDER, TOMBOLO_FILE_ENDED, and
 * TOMBOLO_FILE_FAULT for all else. When their server is gone it is TOMBOLO_PEER_DIED or TOMBOLO_CLOSED.
 */
#ifndef TOMBOLO_FILES_H
#define TOMBOLO_FILES_H

#include <tombolo.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A connection to a file server. */
typedef struct tombolo_files tombolo_files;

/* How they are reached. All zero is what is meant by null. */
typedef struct tombolo_files_options {
    const char *name;      /* under which they are served; null for those that were granted to this program's job */
    uint64_t buffer_bytes; /* of each buffer that bytes go through, a multiple of 64; 0 for 256 KiB */
    uint64_t timeout_ns;   /* for each operation; 0 for a minute */
    uint32_t buffers;      /* 2 to 64, as many calls can be under way; 0 for 8 */
    uint32_t reserved;     /* 0 */
} tombolo_files_options;

/* Reaches them. `options` may be null. TOMBOLO_NOT_GRANTED if none are, or not to this program. Give it back with
 * tombolo_files_drop. */
tombolo_status tombolo_files_reach(const tombolo_domain *domain, const tombolo_files_options *options, tombolo_files **files);

/* Null is allowed. */
void tombolo_files_drop(tombolo_files *files);

/* What is known of a file or folder. */
typedef struct tombolo_file_info {
    uint64_t length;      /* in bytes; of a folder 0 */
    uint64_t modified_ns; /* when its content last changed, since 1970 */
    bool is_folder;
    bool writable;        /* it was granted for writing */
    uint8_t reserved[6];
} tombolo_file_info;

/* Paths are those that the user wrote after --grant, and what is below them. */
tombolo_status tombolo_files_stat(const tombolo_files *files, const char *path, tombolo_file_info *info);

/* Visits what is in a folder, in the order of the names' bytes; all that was granted, if the path is "". A name is good during the
 * call alone. What `visit` returns ends the visit, unless it is TOMBOLO_OK, and is returned. */
typedef tombolo_status (*tombolo_visit_file)(void *context, const char *name, bool is_folder);
tombolo_status tombolo_files_list(const tombolo_files *files, const char *path, tombolo_visit_file visit, void *context);

/* An open file. */
typedef struct tombolo_file tombolo_file;

/* How it is opened; 0 to read it. */
#define TOMBOLO_FILE_WRITE UINT32_C(1)      /* to write as well */
#define TOMBOLO_FILE_CREATE UINT32_C(2)     /* to write as well; made if it is not there */
#define TOMBOLO_FILE_CREATE_NEW UINT32_C(4) /* to write as well; made, and it must not be there */
#define TOMBOLO_FILE_TRUNCATE UINT32_C(8)   /* to write as well, and empty from then on */

/* Opens one. Close it with tombolo_file_close. */
tombolo_status tombolo_file_open(const tombolo_files *files, const char *path, uint32_t flags, tombolo_file **file);

/* Null is allowed. */
void tombolo_file_close(tombolo_file *file);

/* Its length, in bytes, as it is now; and setting it, by cutting it or by zeros. */
tombolo_status tombolo_file_length(const tombolo_file *file, uint64_t *length);
tombolo_status tombolo_file_set_length(const tombolo_file *file, uint64_t length);

/* Reads up to `length` bytes from `offset` on. `count`, which may be null, is less at the end of the file alone; with null it is
 * TOMBOLO_FILE_ENDED if there is less. What the target holds after a failure means nothing. */
tombolo_status tombolo_file_read(const tombolo_file *file, uint64_t offset, void *target, size_t length, size_t *count);

/* Writes all of it from `offset` on; what lies between the end and there becomes zeros. After a failure some may be written. */
tombolo_status tombolo_file_write(const tombolo_file *file, uint64_t offset, const void *source, size_t length);

/* Waits until what was written is on the disk. */
tombolo_status tombolo_file_sync(const tombolo_file *file);

/* A part of a file that was brought here: a copy that belongs to this program alone. What is changed there is the
 * file's after tombolo_file_map_flush, and is lost otherwise. It is used by one thread at a time. */
typedef struct tombolo_file_map tombolo_file_map;

/* Brings `length` bytes from `offset` on here, or all from there if `length` is TOMBOLO_TO_THE_END. */
#define TOMBOLO_TO_THE_END UINT64_MAX
tombolo_status tombolo_file_bring(const tombolo_file *file, uint64_t offset, uint64_t length, tombolo_file_map **map);

/* Where it is, to be read, and how long; null and 0 for null. It stays there until it is given back. */
const void *tombolo_file_map_data(const tombolo_file_map *map);
size_t tombolo_file_map_length(const tombolo_file_map *map);

/* Where `length` bytes of it from `offset` on are, to be changed: the next flush writes them. */
tombolo_status tombolo_file_map_change(tombolo_file_map *map, size_t offset, size_t length, void **bytes);

/* Writes back what was to be changed, from its first byte to its last. It can be done again after a failure. */
tombolo_status tombolo_file_map_flush(tombolo_file_map *map);

/* Null is allowed. */
void tombolo_file_map_drop(tombolo_file_map *map);

#ifdef __cplusplus
}
#endif

#endif
