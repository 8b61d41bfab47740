//! The loops of x86-64. None minds how memory is aligned.

use core::arch::asm;

/// Whether the processor copies strings fast (`rep movsb` moves whole lines): said by all since 2013 or so.
pub(super) fn fast_strings() -> bool {
    use std::sync::OnceLock;
    static FAST: OnceLock<bool> = OnceLock::new();
    *FAST.get_or_init(|| {
        let highest = core::arch::x86_64::__cpuid(0).eax;
        highest >= 7 && core::arch::x86_64::__cpuid_count(7, 0).ebx & (1 << 9) != 0
    })
}

/// `rep movsb`: the processor's own loop.
///
/// # Safety
/// `source` is valid for reads and `target` for writes of `length` bytes.
#[inline]
pub(super) unsafe fn copy_string(source: *const u8, target: *mut u8, length: usize) {
    // SAFETY: the caller's; the direction flag is clear, as the calling convention says.
    unsafe {
        asm!("rep movsb", inout("rcx") length => _, inout("rsi") source => _, inout("rdi") target => _,
             options(nostack, preserves_flags));
    }
}

/// `rep stosb`.
///
/// # Safety
/// `target` is valid for writes of `length` bytes.
#[inline]
pub(super) unsafe fn fill_string(target: *mut u8, length: usize, byte: u8) {
    // SAFETY: as above.
    unsafe {
        asm!("rep stosb", inout("rcx") length => _, inout("rdi") target => _, in("al") byte,
             options(nostack, preserves_flags));
    }
}

/// Up to 32 bytes, by two accesses that may overlap.
///
/// # Safety
/// As [`copy_string`].
#[inline]
pub(super) unsafe fn copy_short(source: *const u8, target: *mut u8, length: usize) {
    debug_assert!(length <= 32);
    /// The first and the last of a width, both loaded before either is stored.
    macro_rules! ends {
        ($width:literal, $first:tt, $last:tt, $move:literal) => {
            // SAFETY: the caller's, and the length is at least the width: both lie inside.
            unsafe {
                asm!(
                    concat!($move, " {first", $first, "}, [{source}]"),
                    concat!($move, " {last", $last, "}, [{source} + {length} - ", $width, "]"),
                    concat!($move, " [{target}], {first", $first, "}"),
                    concat!($move, " [{target} + {length} - ", $width, "], {last", $last, "}"),
                    first = out(reg) _, last = out(reg) _,
                    source = in(reg) source, target = in(reg) target, length = in(reg) length,
                    options(nostack, preserves_flags)
                )
            }
        };
    }
    match length {
        17..=32 => {
            // SAFETY: as in `ends`.
            unsafe {
                asm!(
                    "movdqu {first}, [{source}]", "movdqu {last}, [{source} + {length} - 16]",
                    "movdqu [{target}], {first}", "movdqu [{target} + {length} - 16], {last}",
                    first = out(xmm_reg) _, last = out(xmm_reg) _,
                    source = in(reg) source, target = in(reg) target, length = in(reg) length,
                    options(nostack, preserves_flags)
                );
            }
        }
        8..=16 => ends!(8, "", "", "mov"),
        4..=7 => ends!(4, ":e", ":e", "mov"),
        2..=3 => ends!(2, ":x", ":x", "mov"),
        // SAFETY: the caller's, one byte.
        1 => unsafe { super::opaque::store_byte(target, super::opaque::load_byte(source)) },
        _ => {}
    }
}

/// A loop over vectors: `$step` bytes at a time while there are as many, then one vector at a time, then the last one once more as
/// far back as it has to be.
macro_rules! vector_loop {
    ($name:ident, $doc:literal, $width:literal, $register:literal, $load:literal, $store:literal, $end:literal) => {
        #[doc = $doc]
        ///
        /// # Safety
        /// `source` is valid for reads and `target` for writes of `length` bytes, of which there are at least one
        /// vector's; and the processor has such vectors.
        unsafe fn $name(source: *const u8, target: *mut u8, length: usize) {
            // SAFETY: the caller's. Every access begins at an offset from 0 to `length` less its width.
            unsafe {
                asm!(
                    "2:",
                    concat!("lea {next}, [{at} + 4 * ", $width, "]"),
                    "cmp {next}, {length}",
                    "ja 3f",
                    concat!($load, " ", $register, "0, [{source} + {at}]"),
                    concat!($load, " ", $register, "1, [{source} + {at} + ", $width, "]"),
                    concat!($load, " ", $register, "2, [{source} + {at} + 2 * ", $width, "]"),
                    concat!($load, " ", $register, "3, [{source} + {at} + 3 * ", $width, "]"),
                    concat!($store, " [{target} + {at}], ", $register, "0"),
                    concat!($store, " [{target} + {at} + ", $width, "], ", $register, "1"),
                    concat!($store, " [{target} + {at} + 2 * ", $width, "], ", $register, "2"),
                    concat!($store, " [{target} + {at} + 3 * ", $width, "], ", $register, "3"),
                    "mov {at}, {next}",
                    "jmp 2b",
                    "3:",
                    concat!("lea {next}, [{at} + ", $width, "]"),
                    "cmp {next}, {length}",
                    "ja 4f",
                    concat!($load, " ", $register, "0, [{source} + {at}]"),
                    concat!($store, " [{target} + {at}], ", $register, "0"),
                    "mov {at}, {next}",
                    "jmp 3b",
                    "4:",
                    concat!($load, " ", $register, "0, [{source} + {length} - ", $width, "]"),
                    concat!($store, " [{target} + {length} - ", $width, "], ", $register, "0"),
                    $end,
                    at = inout(reg) 0_usize => _,
                    next = out(reg) _,
                    source = in(reg) source, target = in(reg) target, length = in(reg) length,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    options(nostack)
                );
            }
        }
    };
}

vector_loop!(copy_zmm, "By vectors of 64 bytes.", 64, "zmm", "vmovdqu64", "vmovdqu64", "vzeroupper");
vector_loop!(copy_ymm, "By vectors of 32 bytes.", 32, "ymm", "vmovdqu", "vmovdqu", "vzeroupper");
vector_loop!(copy_xmm, "By vectors of 16 bytes.", 16, "xmm", "movdqu", "movdqu", "");
// The last vector of these may lie anywhere; all before it are aligned by the caller.
vector_loop!(
    stream_zmm,
    "Around the caches, by 64.",
    64,
    "zmm",
    "vmovdqu64",
    "vmovntdq",
    "sfence\nvzeroupper"
);
vector_loop!(stream_ymm, "Around the caches, by 32.", 32, "ymm", "vmovdqu", "vmovntdq", "sfence\nvzeroupper");
vector_loop!(stream_xmm, "Around the caches, by 16.", 16, "xmm", "movdqu", "movntdq", "sfence");

/// By the widest vectors that there are.
///
/// # Safety
/// As [`copy_string`].
pub(super) unsafe fn copy_vectors(source: *const u8, target: *mut u8, length: usize) {
    // SAFETY: the caller's; each loop gets as much as it needs at least, on a processor that has it.
    unsafe {
        if length <= 32 {
            copy_short(source, target, length);
        } else if length >= 64 && is_x86_feature_detected!("avx512f") {
            copy_zmm(source, target, length);
        } else if is_x86_feature_detected!("avx") {
            copy_ymm(source, target, length);
        } else {
            copy_xmm(source, target, length);
        }
    }
}

/// Around the caches of the target: what was copied is not to be read soon. Stores are ordered before all that follow.
///
/// # Safety
/// As [`copy_string`].
pub(super) unsafe fn copy_streaming(source: *const u8, target: *mut u8, length: usize) {
    const LINE: usize = 64;
    let head = target.addr().wrapping_neg() % LINE;
    if length < head + LINE {
        // SAFETY: the caller's.
        return unsafe { copy_vectors(source, target, length) };
    }
    let body = (length - head) / LINE * LINE;
    // SAFETY: the caller's: the three parts lie one after another inside both ranges. The target of the second is aligned to
    // a line and is a number of lines long, so that its last vector is aligned too.
    unsafe {
        copy_vectors(source, target, head);
        let (source, target) = (source.add(head), target.add(head));
        if is_x86_feature_detected!("avx512f") {
            stream_zmm(source, target, body);
        } else if is_x86_feature_detected!("avx") {
            stream_ymm(source, target, body);
        } else {
            stream_xmm(source, target, body);
        }
        copy_vectors(source.add(body), target.add(body), length - head - body);
    }
}
