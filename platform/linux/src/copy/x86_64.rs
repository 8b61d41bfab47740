//! The copy loops for x86-64. They require no alignment.

use core::arch::asm;

/// Returns whether `rep movsb` is fast, moving whole lines: reported by all processors since about 2013.
pub(super) fn has_fast_strings() -> bool {
    use std::sync::OnceLock;
    static FAST: OnceLock<bool> = OnceLock::new();
    *FAST.get_or_init(|| {
        let highest = core::arch::x86_64::__cpuid(0).eax;
        highest >= 7 && core::arch::x86_64::__cpuid_count(7, 0).ebx & (1 << 9) != 0
    })
}

/// Copies with `rep movsb`, the processor's own loop.
///
/// # Safety
/// `source` must be valid for reads and `target` for writes of `length` bytes.
#[inline]
pub(super) unsafe fn copy_string(source: *const u8, target: *mut u8, length: usize) {
    // SAFETY: by this function's contract; the direction flag is clear by the calling convention.
    unsafe {
        asm!("rep movsb", inout("rcx") length => _, inout("rsi") source => _, inout("rdi") target => _,
             options(nostack, preserves_flags));
    }
}

/// Fills with `rep stosb`, the processor's own loop.
///
/// # Safety
/// `target` must be valid for writes of `length` bytes.
#[inline]
pub(super) unsafe fn fill_string(target: *mut u8, length: usize, byte: u8) {
    // SAFETY: as above.
    unsafe {
        asm!("rep stosb", inout("rcx") length => _, inout("rdi") target => _, in("al") byte,
             options(nostack, preserves_flags));
    }
}

/// Copies up to 32 bytes with two accesses that may overlap.
///
/// # Safety
/// As [`copy_string`].
#[inline]
pub(super) unsafe fn copy_short(source: *const u8, target: *mut u8, length: usize) {
    debug_assert!(length <= 32);
    /// Copies the first and the last `width` bytes, both loaded before either is stored.
    macro_rules! ends {
        ($width:literal, $first:tt, $last:tt, $move:literal) => {
            // SAFETY: by the function's contract, and the length is at least the width: both lie inside.
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
        // SAFETY: by this function's contract, one byte.
        1 => unsafe { super::opaque::store_byte(target, super::opaque::load_byte(source)) },
        _ => {}
    }
}

/// A loop over vectors: `$step` bytes at a time while that many are left, then one vector at a time, then a
/// last one moved back as far as necessary.
macro_rules! vector_loop {
    ($name:ident, $doc:literal, $width:literal, $register:literal, $load:literal, $store:literal, $end:literal) => {
        #[doc = $doc]
        ///
        /// # Safety
        /// `source` must be valid for reads and `target` for writes of `length` bytes, at least one
        /// vector's; and the processor must have such vectors.
        unsafe fn $name(source: *const u8, target: *mut u8, length: usize) {
            // SAFETY: by this function's contract. Every access begins at an offset from 0 to `length`
            // minus its width.
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
// The last vector may be unaligned; the caller aligned all before it.
vector_loop!(
    stream_zmm,
    "Bypassing the caches, by vectors of 64 bytes.",
    64,
    "zmm",
    "vmovdqu64",
    "vmovntdq",
    "sfence\nvzeroupper"
);
vector_loop!(
    stream_ymm,
    "Bypassing the caches, by vectors of 32 bytes.",
    32,
    "ymm",
    "vmovdqu",
    "vmovntdq",
    "sfence\nvzeroupper"
);
vector_loop!(
    stream_xmm,
    "Bypassing the caches, by vectors of 16 bytes.",
    16,
    "xmm",
    "movdqu",
    "movntdq",
    "sfence"
);

/// Copies with the widest vectors available.
///
/// # Safety
/// As [`copy_string`].
pub(super) unsafe fn copy_vectors(source: *const u8, target: *mut u8, length: usize) {
    // SAFETY: by this function's contract; each loop gets at least the length it needs, on a processor that
    // has it.
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

/// Copies with stores that bypass the caches, for targets that are not read soon. The stores are ordered
/// before all later ones.
///
/// # Safety
/// As [`copy_string`].
pub(super) unsafe fn copy_streaming(source: *const u8, target: *mut u8, length: usize) {
    const LINE: usize = 64;
    let head = target.addr().wrapping_neg() % LINE;
    if length < head + LINE {
        // SAFETY: by this function's contract.
        return unsafe { copy_vectors(source, target, length) };
    }
    let body = (length - head) / LINE * LINE;
    // SAFETY: by this function's contract: the three parts lie one after another inside both ranges. The
    // target of the second is aligned to a line and is whole lines long, so its last vector is aligned too.
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
