//! Additional requirements of C++ programs.
//!
//! The C++ library is the compiler's `libstdc++.a`, which is built for another C library, glibc. Containers,
//! strings, exceptions and run-time type information depend little on it. Streams and locales use tables that
//! only glibc has, and are not available.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use tombolo_base::Isa;
use tombolo_machine::build::gcc::start;

use super::CompileError;

/// Options that define what the library's headers take from glibc's.
pub(super) const OPTIONS: [&str; 3] =
    ["-nostdinc++", "-D__GLIBC_PREREQ(major,minor)=0", "-D__locale_t=locale_t"];

/// Assembly of symbols that the library takes from glibc: the flag for a single thread, cleared because the
/// library would otherwise avoid atomic operations, and the source of random numbers. Also the handle with
/// which a program registers destructors.
pub(super) const SYMBOLS: &str = "\
.section .rodata.__libc_single_threaded,\"a\",%progbits\n.globl __libc_single_threaded\n.type __libc_single_threaded,%object\n\
.size __libc_single_threaded,1\n__libc_single_threaded: .zero 1\n\
.section .rodata.__dso_handle,\"a\",%progbits\n.globl __dso_handle\n.type __dso_handle,%object\n\
.size __dso_handle,8\n.balign 8\n__dso_handle: .zero 8\n\
.section .text.arc4random,\"ax\",%progbits\n.globl arc4random\n.type arc4random,%function\narc4random:\n";

/// Returns the body of `arc4random`, based on musl's `getentropy`.
pub(super) const fn arc4random_body(isa: Isa) -> &'static str {
    match isa {
        Isa::Aarch64 => {
            "stp x29, x30, [sp, #-32]!\nadd x0, sp, #16\nmov x1, #4\nbl getentropy\nldr w0, [sp, #16]\nldp x29, x30, [sp], #32\nret\n"
        }
        _ => {
            "sub $24, %rsp\nmov %rsp, %rdi\nmov $4, %esi\ncall getentropy\nmov (%rsp), %eax\nadd $24, %rsp\nret\n"
        }
    }
}

/// Returns whether a symbol is a thunk, which only virtual tables refer to, and each process has its own
/// tables. Thunks follow their function in its section, so their addresses depend on its size.
pub(super) fn is_vtable_thunk(symbol: &str) -> bool {
    ["_ZTh", "_ZTv", "_ZTc"].iter().any(|begin| symbol.starts_with(begin))
}

/// Explains in the compiler's messages why streams and locales are missing.
pub(super) fn explain_missing_streams(messages: &mut Vec<u8>) {
    if String::from_utf8_lossy(messages).contains("/ctype_base.h:") {
        messages.extend(
            b"streams and locales of C++ are not there: libstdc++ has them for glibc alone, and these programs have musl; \
              printf and its like are in <cstdio>\n",
        );
    }
}

/// Returns the compiler's folders of C++ headers, in search order.
pub(super) fn header_folders(tool: &str) -> Result<Vec<PathBuf>, CompileError> {
    let output = start(Command::new(tool).args(["-E", "-v", "-x", "c++", "-"]).stdin(Stdio::null()))?;
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    let list = messages.lines().skip_while(|line| !line.starts_with("#include <")).skip(1);
    let folders = list.take_while(|line| line.starts_with(' ')).map(str::trim);
    Ok(folders.filter(|folder| folder.contains("c++")).map(PathBuf::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vtable_thunks_are_recognised() {
        for thunk in ["_ZTv0_n32_N5BlockD0Ev", "_ZThn16_N1B1fEv", "_ZTch0_h16_N1B1fEv"] {
            assert!(is_vtable_thunk(thunk), "{thunk}");
        }
        for other in ["_ZTV5Block", "_ZTI5Block", "_ZTS5Block", "_ZTT5Block", "_ZN5BlockD0Ev", "main"] {
            assert!(!is_vtable_thunk(other), "{other}");
        }
    }

    #[test]
    fn missing_streams_are_explained() {
        let explained = |text: &str| {
            let mut messages = text.as_bytes().to_vec();
            explain_missing_streams(&mut messages);
            messages.len() > text.len()
        };
        assert!(explained(
            "/usr/include/c++/12/bits/ctype_base.h:49:35: error: '_ISupper' was not declared\n"
        ));
        assert!(!explained("main.cpp:1:1: error: 'x' does not name a type\n"));
    }
}
