// The first instructions of the board, entering and leaving a program, and the exception vectors.

.section .text.boot, "ax"
.global _board_start
_board_start:
    // Enable floating-point and vector registers, which compilers use for copying.
    mov     x1, #(3 << 20)
    msr     cpacr_el1, x1
    isb
    adrp    x1, __stack_end
    add     x1, x1, :lo12:__stack_end
    mov     sp, x1
    adrp    x1, __bss_start
    add     x1, x1, :lo12:__bss_start
    adrp    x2, __bss_end
    add     x2, x2, :lo12:__bss_end
1:  cmp     x1, x2
    b.hs    2f
    str     xzr, [x1], #8
    b       1b
2:  adrp    x1, tombolo_board_vectors
    add     x1, x1, :lo12:tombolo_board_vectors
    msr     vbar_el1, x1
    isb
    bl      tombolo_board_main
3:  wfi
    b       3b

.section .text.trap, "ax"

// u64 tombolo_board_run(Registers*): runs the program with these registers until it traps; returns
// 0 for a synchronous exception, 1 for an interrupt, 2 for a system error (SError).
.global tombolo_board_run
tombolo_board_run:
    stp     x29, x30, [sp, #-176]!
    stp     x19, x20, [sp, #16]
    stp     x21, x22, [sp, #32]
    stp     x23, x24, [sp, #48]
    stp     x25, x26, [sp, #64]
    stp     x27, x28, [sp, #80]
    stp     d8, d9, [sp, #96]
    stp     d10, d11, [sp, #112]
    stp     d12, d13, [sp, #128]
    stp     d14, d15, [sp, #144]
    str     x0, [sp, #160]
    ldp     x1, x2, [x0, #248]          // stack, instruction
    ldr     x3, [x0, #264]              // state
    msr     sp_el0, x1
    msr     elr_el1, x2
    msr     spsr_el1, x3
    ldp     x1, x2, [x0, #272]
    msr     fpcr, x1
    msr     fpsr, x2
    add     x1, x0, #288
    ldp     q0, q1, [x1, #0]
    ldp     q2, q3, [x1, #32]
    ldp     q4, q5, [x1, #64]
    ldp     q6, q7, [x1, #96]
    ldp     q8, q9, [x1, #128]
    ldp     q10, q11, [x1, #160]
    ldp     q12, q13, [x1, #192]
    ldp     q14, q15, [x1, #224]
    ldp     q16, q17, [x1, #256]
    ldp     q18, q19, [x1, #288]
    ldp     q20, q21, [x1, #320]
    ldp     q22, q23, [x1, #352]
    ldp     q24, q25, [x1, #384]
    ldp     q26, q27, [x1, #416]
    ldp     q28, q29, [x1, #448]
    ldp     q30, q31, [x1, #480]
    ldp     x2, x3, [x0, #16]
    ldp     x4, x5, [x0, #32]
    ldp     x6, x7, [x0, #48]
    ldp     x8, x9, [x0, #64]
    ldp     x10, x11, [x0, #80]
    ldp     x12, x13, [x0, #96]
    ldp     x14, x15, [x0, #112]
    ldp     x16, x17, [x0, #128]
    ldp     x18, x19, [x0, #144]
    ldp     x20, x21, [x0, #160]
    ldp     x22, x23, [x0, #176]
    ldp     x24, x25, [x0, #192]
    ldp     x26, x27, [x0, #208]
    ldp     x28, x29, [x0, #224]
    ldr     x30, [x0, #240]
    ldp     x0, x1, [x0, #0]
    eret

// Entered with the stack as tombolo_board_run left it, x0 and x1 saved below it, and the kind in x0.
tombolo_board_trapped:
    mov     x1, x0
    ldr     x0, [sp, #176]              // where the registers go
    stp     x2, x3, [x0, #16]
    stp     x4, x5, [x0, #32]
    ldp     x2, x3, [sp], #16
    stp     x2, x3, [x0, #0]
    stp     x6, x7, [x0, #48]
    stp     x8, x9, [x0, #64]
    stp     x10, x11, [x0, #80]
    stp     x12, x13, [x0, #96]
    stp     x14, x15, [x0, #112]
    stp     x16, x17, [x0, #128]
    stp     x18, x19, [x0, #144]
    stp     x20, x21, [x0, #160]
    stp     x22, x23, [x0, #176]
    stp     x24, x25, [x0, #192]
    stp     x26, x27, [x0, #208]
    stp     x28, x29, [x0, #224]
    str     x30, [x0, #240]
    mrs     x2, sp_el0
    mrs     x3, elr_el1
    stp     x2, x3, [x0, #248]
    mrs     x2, spsr_el1
    str     x2, [x0, #264]
    mrs     x2, fpcr
    mrs     x3, fpsr
    stp     x2, x3, [x0, #272]
    add     x2, x0, #288
    stp     q0, q1, [x2, #0]
    stp     q2, q3, [x2, #32]
    stp     q4, q5, [x2, #64]
    stp     q6, q7, [x2, #96]
    stp     q8, q9, [x2, #128]
    stp     q10, q11, [x2, #160]
    stp     q12, q13, [x2, #192]
    stp     q14, q15, [x2, #224]
    stp     q16, q17, [x2, #256]
    stp     q18, q19, [x2, #288]
    stp     q20, q21, [x2, #320]
    stp     q22, q23, [x2, #352]
    stp     q24, q25, [x2, #384]
    stp     q26, q27, [x2, #416]
    stp     q28, q29, [x2, #448]
    stp     q30, q31, [x2, #480]
    mov     x0, x1
    ldp     x19, x20, [sp, #16]
    ldp     x21, x22, [sp, #32]
    ldp     x23, x24, [sp, #48]
    ldp     x25, x26, [sp, #64]
    ldp     x27, x28, [sp, #80]
    ldp     d8, d9, [sp, #96]
    ldp     d10, d11, [sp, #112]
    ldp     d12, d13, [sp, #128]
    ldp     d14, d15, [sp, #144]
    ldp     x29, x30, [sp], #176
    ret

// An exception of the monitor itself, which is fatal.
.macro own_fault kind
    .balign 128
    mov     x0, #\kind
    mrs     x1, esr_el1
    mrs     x2, elr_el1
    mrs     x3, far_el1
    b       tombolo_board_own_fault
.endm

.macro trap_of_program kind
    .balign 128
    stp     x0, x1, [sp, #-16]!
    mov     x0, #\kind
    b       tombolo_board_trapped
.endm

.section .text.vectors, "ax"
.balign 2048
.global tombolo_board_vectors
tombolo_board_vectors:
    own_fault 0
    own_fault 1
    own_fault 2
    own_fault 3
    own_fault 4
    own_fault 5
    own_fault 6
    own_fault 7
    trap_of_program 0
    trap_of_program 1
    trap_of_program 2
    trap_of_program 2
    own_fault 12
    own_fault 13
    own_fault 14
    own_fault 15
.balign 128
