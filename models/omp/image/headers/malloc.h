/* musl's, with what glibc's includes besides. */
#include <stdio.h>
#include_next <malloc.h>
