/* musl's, with what glibc's includes besides. */
#include_next <features.h>
#include <sys/cdefs.h>
