//! Names of the program's functions, for reports.
//!
//! GCC's outlined functions are local to their object file, so the loader does not know their names; the
//! program's symbol table does.

use std::fs;
#[cfg(target_env = "musl")]
use std::sync::OnceLock;

/// Function with its address and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    address: usize,
    name: String,
}

/// Reads the functions of this program, none if it is stripped. The addresses are those in memory.
pub fn of_program() -> Vec<Symbol> {
    let Ok(bytes) = fs::read("/proc/self/exe") else { return Vec::new() };
    let base = load_base();
    let mut symbols = parse_symbols(&bytes).unwrap_or_default();
    for symbol in &mut symbols {
        symbol.address = symbol.address.wrapping_add(base);
    }
    symbols.sort_by_key(|symbol| symbol.address);
    symbols
}

/// Returns the name of a function, or its address in hexadecimal.
pub fn name(symbols: &[Symbol], address: usize) -> String {
    find(symbols, address).unwrap_or_else(|| format!("{address:#x}"))
}

/// Finds the name of a function. The thunk of a migrating function has the name of the function itself.
fn find(symbols: &[Symbol], address: usize) -> Option<String> {
    let index = symbols.binary_search_by_key(&address, |symbol| symbol.address).ok()?;
    let name = &symbols[index].name;
    Some(name.strip_prefix("__tombolo_there_").unwrap_or(name).to_owned())
}

/// Returns the name of a function that runs on another node; `None` if the program is stripped.
#[cfg(target_env = "musl")]
pub fn name_of_remote_function(address: usize) -> Option<String> {
    static SYMBOLS: OnceLock<Vec<Symbol>> = OnceLock::new();
    find(SYMBOLS.get_or_init(of_program), address)
}

/// Returns the difference between addresses in memory and in the file: 0 if the program has fixed addresses.
fn load_base() -> usize {
    // SAFETY: reads the auxiliary vector; missing entries are 0.
    let (headers, count) = unsafe { (libc::getauxval(libc::AT_PHDR), libc::getauxval(libc::AT_PHNUM)) };
    let headers = headers as usize as *const libc::Elf64_Phdr;
    if headers.is_null() {
        return 0;
    }
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the kernel passes the number of headers.
        let header = unsafe { &*headers.add(index) };
        if header.p_type == libc::PT_PHDR {
            return (headers as usize).wrapping_sub(usize::try_from(header.p_vaddr).unwrap_or(0));
        }
    }
    0
}

fn read_number(bytes: &[u8], at: usize, length: usize) -> Option<usize> {
    let mut word = [0; 8];
    word.get_mut(..length)?.copy_from_slice(bytes.get(at..at.checked_add(length)?)?);
    usize::try_from(u64::from_le_bytes(word)).ok()
}

/// Parses the function symbols of a 64-bit ELF file.
fn parse_symbols(bytes: &[u8]) -> Option<Vec<Symbol>> {
    const SYMBOLS: usize = 2;
    const FUNCTION: usize = 2;
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let sections = read_number(bytes, 0x28, 8)?;
    let (size, count) = (read_number(bytes, 0x3a, 2)?, read_number(bytes, 0x3c, 2)?);
    let section = |index: usize| sections.checked_add(index.checked_mul(size)?);
    let table = (0..count).filter_map(section).find(|&at| read_number(bytes, at + 4, 4) == Some(SYMBOLS))?;
    let (begin, length) = (read_number(bytes, table + 0x18, 8)?, read_number(bytes, table + 0x20, 8)?);
    let names = read_number(bytes, section(read_number(bytes, table + 0x28, 4)?)? + 0x18, 8)?;
    let mut symbols = Vec::new();
    for at in (begin..begin.checked_add(length)?).step_by(24) {
        if read_number(bytes, at + 4, 1)? & 0xf == FUNCTION {
            let name = bytes.get(names.checked_add(read_number(bytes, at, 4)?)?..)?;
            let name = name.split(|&byte| byte == 0).next()?;
            let name = String::from_utf8_lossy(name).into_owned();
            symbols.push(Symbol { address: read_number(bytes, at + 8, 8)?, name });
        }
    }
    Some(symbols)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_this_program_have_names() {
        let symbols = of_program();
        let address = name as *const () as usize;
        assert!(name(&symbols, address).contains("symbols"), "{}", name(&symbols, address));
        assert_eq!(name(&symbols, 12), "0xc");
    }

    #[test]
    fn non_elf_files_have_no_functions() {
        assert_eq!(parse_symbols(b"no"), None);
        assert_eq!(parse_symbols(&[0xff; 128]), None);
    }
}
