/*
 * Remote files that were granted to this program's job (`tombolo run --grant`), accessible from any node.
 *
 * A tombolo_files is a connection to their server. Open files keep the connection alive, so it may be released before them.
 * Threads may share both; their operations are serialized. No operation takes longer than the timeout of the connection.
 *
 * Operations on files fail with these statuses, and tombolo_last_error() names the file and the reason:
 * TOMBOLO_NOT_GRANTED, TOMBOLO_NO_SUCH_FILE, TOMBOLO_FILE_EXISTS, TOMBOLO_IS_FOLDER, TOMBOLO_NOT_FOLDER, TOMBOLO_FILE_ENDED, and
 * TOMBOLO_FILE_FAULT for all else. When the server is gone: TOMBOLO_PEER_DIED or TOMBOLO_CLOSED.
 */
#ifndef TOMBOLO_FILES_H
#define TOMBOLO_FILES_H

#include <tombolo.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A connection to a file server. */
typedef struct tombolo_files tombolo_files;

/* Options for a connection. All zero means the same as null. */
typedef struct tombolo_files_options {
    const char *name;      /* name of the file server; null for the files that were granted to this program's job */
    uint64_t buffer_bytes; /* size of each transfer buffer, a multiple of 64; 0 for 256 KiB */
    uint64_t timeout_ns;   /* of each operation; 0 for a minute */
    uint32_t buffers;      /* number of transfer buffers and of calls in flight, 2 to 64; 0 for 8 */
    uint32_t reserved;     /* 0 */
} tombolo_files_options;

/* Connects to the file server. `options` may be null. TOMBOLO_NOT_GRANTED: no files were granted to this program. Release the
 * connection with tombolo_files_drop. */
tombolo_status tombolo_files_reach(const tombolo_domain *domain, const tombolo_files_options *options, tombolo_files **files);

/* Null is allowed. */
void tombolo_files_drop(tombolo_files *files);

/* Metadata of a file or folder. */
typedef struct tombolo_file_info {
    uint64_t length;      /* in bytes; 0 for a folder */
    uint64_t modified_ns; /* time of the last change of its content, since 1970 */
    bool is_folder;
    bool writable;        /* whether it was granted for writing */
    uint8_t reserved[6];
} tombolo_file_info;

/* Returns metadata of a path: one that the user wrote after --grant, or one below it. */
tombolo_status tombolo_files_stat(const tombolo_files *files, const char *path, tombolo_file_info *info);

/* Visits the entries of a folder, in byte order of their names, or everything granted if the path is "". `name` is valid only
 * during the callback. A status other than TOMBOLO_OK from `visit` ends the visit and is returned. */
typedef tombolo_status (*tombolo_visit_file)(void *context, const char *name, bool is_folder);
tombolo_status tombolo_files_list(const tombolo_files *files, const char *path, tombolo_visit_file visit, void *context);

/* An open file. */
typedef struct tombolo_file tombolo_file;

/* Flags for opening a file; 0 opens it for reading. */
#define TOMBOLO_FILE_WRITE UINT32_C(1)      /* for writing too */
#define TOMBOLO_FILE_CREATE UINT32_C(2)     /* for writing too; created if it does not exist */
#define TOMBOLO_FILE_CREATE_NEW UINT32_C(4) /* for writing too; created, and it must not exist */
#define TOMBOLO_FILE_TRUNCATE UINT32_C(8)   /* for writing too; truncated to length 0 */

/* Opens a file. Close it with tombolo_file_close. */
tombolo_status tombolo_file_open(const tombolo_files *files, const char *path, uint32_t flags, tombolo_file **file);

/* Null is allowed. */
void tombolo_file_close(tombolo_file *file);

/* Return the file's current length, in bytes, and set it, truncating the file or extending it with zeros. */
tombolo_status tombolo_file_length(const tombolo_file *file, uint64_t *length);
tombolo_status tombolo_file_set_length(const tombolo_file *file, uint64_t length);

/* Reads up to `length` bytes at `offset`. `*count` is less than `length` only at the end of the file; if `count` is null, a short
 * read is TOMBOLO_FILE_ENDED. After a failure the contents of `target` are unspecified. */
tombolo_status tombolo_file_read(const tombolo_file *file, uint64_t offset, void *target, size_t length, size_t *count);

/* Writes all bytes at `offset`; a gap after the end of the file is filled with zeros. A failed write may have written some. */
tombolo_status tombolo_file_write(const tombolo_file *file, uint64_t offset, const void *source, size_t length);

/* Waits until all writes are on disk. */
tombolo_status tombolo_file_sync(const tombolo_file *file);

/* A private copy of a part of a file in this program's memory. Changes reach the file with tombolo_file_map_flush, and are
 * lost otherwise. One thread at a time may use it. */
typedef struct tombolo_file_map tombolo_file_map;

/* Copies `length` bytes at `offset` into memory, or everything from there if `length` is TOMBOLO_TO_THE_END. */
#define TOMBOLO_TO_THE_END UINT64_MAX
tombolo_status tombolo_file_bring(const tombolo_file *file, uint64_t offset, uint64_t length, tombolo_file_map **map);

/* Return the copy's address, for reading, and its length; null and 0 for null. Valid until it is dropped. */
const void *tombolo_file_map_data(const tombolo_file_map *map);
size_t tombolo_file_map_length(const tombolo_file_map *map);

/* Returns a pointer to `length` bytes at `offset` to change; the next flush writes them. */
tombolo_status tombolo_file_map_change(tombolo_file_map *map, size_t offset, size_t length, void **bytes);

/* Writes back the range from the first to the last byte to be changed. Can be retried after a failure. */
tombolo_status tombolo_file_map_flush(tombolo_file_map *map);

/* Null is allowed. */
void tombolo_file_map_drop(tombolo_file_map *map);

#ifdef __cplusplus
}
#endif

#endif
