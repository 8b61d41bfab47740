/* What programs use of glibc's; musl has no such header. */
#ifndef TOMBOLO_SYS_CDEFS_H
#define TOMBOLO_SYS_CDEFS_H
#ifdef __cplusplus
#define __BEGIN_DECLS extern "C" {
#define __END_DECLS }
#else
#define __BEGIN_DECLS
#define __END_DECLS
#endif
#define __THROW __attribute__((__nothrow__))
#define __CONCAT(one, other) one##other
#define __STRING(text) #text
#define __P(parameters) parameters
#endif
