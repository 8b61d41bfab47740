/* As long on all processors: a thread of one can jump to where a thread of another has called setjmp. */
typedef unsigned long __jmp_buf[22];
