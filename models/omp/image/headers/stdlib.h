/* musl's, with what glibc's includes besides: int32_t and its like, struct timeval, fd_set. */
#include <features.h>
#if defined(_GNU_SOURCE) || defined(_BSD_SOURCE) || defined(_XOPEN_SOURCE)
#include <sys/types.h>
#endif
#include_next <stdlib.h>
