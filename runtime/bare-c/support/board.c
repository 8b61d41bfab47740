/*
 * What picolibc asks of a system, on a board without one. `tombolo build` compiles it with each program in C.
 *
 * The standard output and errors are lines: a line goes out when it ends, or when the buffer is full. There is no
 * standard input and there are no files.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

void tombolo_board_write(int stream, const void *bytes, size_t length);
uint64_t tombolo_board_now_ns(void);
void tombolo_board_sleep(uint64_t duration_ns);

struct line {
    int stream;
    size_t length;
    char bytes[256];
};

static struct line output = {1, 0, {0}};
static struct line errors = {2, 0, {0}};

static int flush_line(struct line *line)
{
    tombolo_board_write(line->stream, line->bytes, line->length);
    line->length = 0;
    return 0;
}

static int put(struct line *line, char byte)
{
    line->bytes[line->length++] = byte;
    return byte == '\n' || line->length == sizeof line->bytes ? flush_line(line) : 0;
}

static int put_output(char byte, FILE *file)
{
    (void)file;
    return put(&output, byte);
}

static int flush_output(FILE *file)
{
    (void)file;
    return flush_line(&output);
}

static int put_error(char byte, FILE *file)
{
    (void)file;
    return put(&errors, byte);
}

static int flush_errors(FILE *file)
{
    (void)file;
    return flush_line(&errors);
}

static int get(FILE *file)
{
    (void)file;
    return _FDEV_EOF;
}

static FILE output_file = FDEV_SETUP_STREAM(put_output, NULL, flush_output, _FDEV_SETUP_WRITE);
static FILE errors_file = FDEV_SETUP_STREAM(put_error, NULL, flush_errors, _FDEV_SETUP_WRITE);
static FILE input_file = FDEV_SETUP_STREAM(NULL, get, NULL, _FDEV_SETUP_READ);

FILE *const stdout = &output_file;
FILE *const stderr = &errors_file;
FILE *const stdin = &input_file;

void tombolo_board_flush(void)
{
    flush_line(&output);
    flush_line(&errors);
}

extern char __tls_base[];
extern void (*__init_array_start[])(void);
extern void (*__init_array_end[])(void);
void _set_tls(void *tls);

void tombolo_board_begin(void)
{
    /* One thread: its variables are where the program was loaded. */
    _set_tls(__tls_base);
    for (void (**initialize)(void) = __init_array_start; initialize != __init_array_end; initialize++)
        (*initialize)();
}

int gettimeofday(struct timeval *time, void *zone)
{
    uint64_t now_ns = tombolo_board_now_ns();
    (void)zone;
    time->tv_sec = (time_t)(now_ns / 1000000000);
    time->tv_usec = (suseconds_t)(now_ns / 1000 % 1000000);
    return 0;
}

/* A program has its board to itself: its time is the board's. */
clock_t times(struct tms *time)
{
    clock_t ticks = (clock_t)(tombolo_board_now_ns() / (1000000000 / CLOCKS_PER_SEC));
    *time = (struct tms){.tms_utime = ticks};
    return ticks;
}

int usleep(useconds_t duration_us)
{
    tombolo_board_sleep((uint64_t)duration_us * 1000);
    return 0;
}

unsigned sleep(unsigned duration_s)
{
    tombolo_board_sleep((uint64_t)duration_s * 1000000000);
    return 0;
}

/* There are no files: a name is not found, and no number is an open file. */

int open(const char *name, int flags, ...)
{
    (void)name, (void)flags;
    errno = ENOENT;
    return -1;
}

int unlink(const char *name)
{
    (void)name;
    errno = ENOENT;
    return -1;
}

int close(int file)
{
    (void)file;
    errno = EBADF;
    return -1;
}

ssize_t read(int file, void *bytes, size_t length)
{
    (void)bytes, (void)length;
    if (file == 0)
        return 0;
    errno = EBADF;
    return -1;
}

ssize_t write(int file, const void *bytes, size_t length)
{
    if (file == 1 || file == 2) {
        flush_line(file == 1 ? &output : &errors);
        tombolo_board_write(file, bytes, length);
        return (ssize_t)length;
    }
    errno = EBADF;
    return -1;
}

off_t lseek(int file, off_t offset, int from)
{
    (void)file, (void)offset, (void)from;
    errno = EBADF;
    return -1;
}

int fstat(int file, struct stat *about)
{
    (void)file, (void)about;
    errno = EBADF;
    return -1;
}
