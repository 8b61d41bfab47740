// The first instructions of the board, entering and leaving a program, and the trap vector.
.option arch, +f, +d, +zicsr

.section .text.boot, "ax"
.global _board_start
_board_start:
    li      t0, 1 << 13                 // floating point is on
    csrs    mstatus, t0
    la      sp, __stack_end
    la      t0, __bss_start
    la      t1, __bss_end
1:  bgeu    t0, t1, 2f
    sd      zero, 0(t0)
    addi    t0, t0, 8
    j       1b
2:  la      t0, tombolo_board_vector
    csrw    mtvec, t0
    csrw    mscratch, zero
    csrw    mie, zero
    mv      a0, a1                      // the device tree
    call    tombolo_board_main
3:  wfi
    j       3b

.macro each_float operation, base
    \operation f0, 256+0(\base)
    \operation f1, 256+8(\base)
    \operation f2, 256+16(\base)
    \operation f3, 256+24(\base)
    \operation f4, 256+32(\base)
    \operation f5, 256+40(\base)
    \operation f6, 256+48(\base)
    \operation f7, 256+56(\base)
    \operation f8, 256+64(\base)
    \operation f9, 256+72(\base)
    \operation f10, 256+80(\base)
    \operation f11, 256+88(\base)
    \operation f12, 256+96(\base)
    \operation f13, 256+104(\base)
    \operation f14, 256+112(\base)
    \operation f15, 256+120(\base)
    \operation f16, 256+128(\base)
    \operation f17, 256+136(\base)
    \operation f18, 256+144(\base)
    \operation f19, 256+152(\base)
    \operation f20, 256+160(\base)
    \operation f21, 256+168(\base)
    \operation f22, 256+176(\base)
    \operation f23, 256+184(\base)
    \operation f24, 256+192(\base)
    \operation f25, 256+200(\base)
    \operation f26, 256+208(\base)
    \operation f27, 256+216(\base)
    \operation f28, 256+224(\base)
    \operation f29, 256+232(\base)
    \operation f30, 256+240(\base)
    \operation f31, 256+248(\base)
.endm

// All but x0, x2 (the stack) and x10 (the address of the registers).
.macro most_integers operation
    \operation x1, 8(x10)
    \operation x3, 24(x10)
    \operation x4, 32(x10)
    \operation x5, 40(x10)
    \operation x6, 48(x10)
    \operation x7, 56(x10)
    \operation x8, 64(x10)
    \operation x9, 72(x10)
    \operation x11, 88(x10)
    \operation x12, 96(x10)
    \operation x13, 104(x10)
    \operation x14, 112(x10)
    \operation x15, 120(x10)
    \operation x16, 128(x10)
    \operation x17, 136(x10)
    \operation x18, 144(x10)
    \operation x19, 152(x10)
    \operation x20, 160(x10)
    \operation x21, 168(x10)
    \operation x22, 176(x10)
    \operation x23, 184(x10)
    \operation x24, 192(x10)
    \operation x25, 200(x10)
    \operation x26, 208(x10)
    \operation x27, 216(x10)
    \operation x28, 224(x10)
    \operation x29, 232(x10)
    \operation x30, 240(x10)
    \operation x31, 248(x10)
.endm

// The callee-saved registers besides the stack pointer.
.macro own_registers integer, float
    \integer ra, 16(sp)
    \integer s0, 24(sp)
    \integer s1, 32(sp)
    \integer s2, 40(sp)
    \integer s3, 48(sp)
    \integer s4, 56(sp)
    \integer s5, 64(sp)
    \integer s6, 72(sp)
    \integer s7, 80(sp)
    \integer s8, 88(sp)
    \integer s9, 96(sp)
    \integer s10, 104(sp)
    \integer s11, 112(sp)
    \float fs0, 120(sp)
    \float fs1, 128(sp)
    \float fs2, 136(sp)
    \float fs3, 144(sp)
    \float fs4, 152(sp)
    \float fs5, 160(sp)
    \float fs6, 168(sp)
    \float fs7, 176(sp)
    \float fs8, 184(sp)
    \float fs9, 192(sp)
    \float fs10, 200(sp)
    \float fs11, 208(sp)
    \integer gp, 216(sp)
    \integer tp, 224(sp)
.endm

.section .text.trap, "ax"

// u64 tombolo_board_run(Registers*): runs the program whose registers these are until it traps; returns the
// trap's cause.
.global tombolo_board_run
tombolo_board_run:
    addi    sp, sp, -240
    own_registers sd, fsd
    sd      a0, 0(sp)
    csrw    mscratch, sp
    ld      t0, 512(a0)
    csrw    mepc, t0
    ld      t0, 520(a0)
    fscsr   t0
    each_float fld, a0
    li      t0, 3 << 11                 // to programs' privileges
    csrc    mstatus, t0
    li      t0, 1 << 7                  // where interrupts are taken
    csrs    mstatus, t0
    ld      sp, 16(a0)
    most_integers ld
    ld      x10, 80(x10)
    mret

.balign 4
tombolo_board_vector:
    csrrw   sp, mscratch, sp            // the monitor's stack; zero if the monitor itself was running
    beqz    sp, 1f
    sd      x10, 8(sp)
    ld      x10, 0(sp)
    most_integers sd
    ld      t0, 8(sp)
    sd      t0, 80(x10)
    csrrw   t0, mscratch, zero
    sd      t0, 16(x10)
    csrr    t0, mepc
    sd      t0, 512(x10)
    frcsr   t0
    sd      t0, 520(x10)
    each_float fsd, x10
    csrr    a0, mcause
    own_registers ld, fld
    addi    sp, sp, 240
    ret
    // An exception of the monitor itself, which is fatal.
1:  la      sp, __stack_end
    csrr    a0, mcause
    csrr    a1, mepc
    csrr    a2, mtval
    j       tombolo_board_own_fault
