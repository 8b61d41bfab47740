//! `cargo xtask coherent`: checks that code for coherent memory contains no cache maintenance.
//!
//! Compiles the functions of [`FUNCTIONS`] with the release profile and inspects the machine code: a load or
//! store on coherent memory must match that of plain memory instruction by instruction, and a ring over
//! coherent memory must not reach the code that writes back or invalidates cache lines, which a ring over
//! non-coherent memory does reach.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use crate::failure::Failure;
use crate::workspace::{Workspace, capture, execute};

/// Source of the compiled functions. The constants below refer to them by name.
const FUNCTIONS: &str = r#"
#![crate_type = "lib"]

use tombolo_base::coherence::Flushed;
use tombolo_base::sync::Ordering::{Acquire, Release};
use tombolo_base::{CacheMaintenance, SharedMemory};
use tombolo_ring::{Consumer, Producer};

#[inline(never)]
pub fn plain_load(memory: &SharedMemory, index: usize) -> u64 {
    memory.load_le(index, Acquire)
}

#[inline(never)]
pub fn coherent_load(memory: &SharedMemory, index: usize) -> u64 {
    memory.load_current_le(index, Acquire)
}

#[inline(never)]
pub fn plain_store(memory: &SharedMemory, index: usize, value: u64) {
    memory.store_le(index, value, Release);
}

#[inline(never)]
pub fn coherent_store(memory: &SharedMemory, index: usize, value: u64) {
    memory.store_through_le(index, value, Release);
}

#[inline(never)]
pub fn plain_range(memory: &SharedMemory) -> usize {
    memory.len_bytes()
}

#[inline(never)]
pub fn coherent_range(memory: &SharedMemory) -> usize {
    memory.invalidate(0..8);
    memory.write_back(0..8);
    memory.len_bytes()
}

fn received<C: CacheMaintenance>(consumer: &mut Consumer<C>) -> Option<usize> {
    consumer.try_recv().ok()?.map(|message| message.len())
}

#[inline(never)]
pub fn coherent_ring(producer: &mut Producer, consumer: &mut Consumer, message: &[u8]) -> Option<usize> {
    producer.try_send(message).ok()?;
    received(consumer)
}

#[inline(never)]
pub fn flushed_ring(
    producer: &mut Producer<Flushed>,
    consumer: &mut Consumer<Flushed>,
    message: &[u8],
) -> Option<usize> {
    producer.try_send(message).ok()?;
    received(consumer)
}
"#;

/// Pairs of functions that must compile to the same instructions.
const PAIRS: [(&str, &str); 3] =
    [("plain_load", "coherent_load"), ("plain_store", "coherent_store"), ("plain_range", "coherent_range")];

/// Markers of code for non-coherent memory: its type, and the cache instructions of x86-64 and aarch64.
const SIGNS: [&str; 6] = ["Flushed", "clflush", "clwb", "cvac", "civac", "CacheInstructions"];

pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    let target = workspace.checks();
    let mut build = workspace.cargo();
    build.env("CARGO_TARGET_DIR", &target).args([
        "build",
        "--release",
        "-p",
        "tombolo-base",
        "-p",
        "tombolo-ring",
    ]);
    execute(&mut build)?;
    let built = target.join("release");
    let assembly = built.join("coherent.s");
    let library = |name: &str| format!("{name}={}", built.join(format!("lib{name}.rlib")).display());
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "--emit", "asm", "-C", "opt-level=3", "-C", "codegen-units=1", "-o"]);
    rustc.arg(&assembly).arg("-L").arg(format!("dependency={}", built.join("deps").display()));
    rustc.args(["--extern", &library("tombolo_base"), "--extern", &library("tombolo_ring")]);
    let source = built.join("coherent.rs");
    fs::write(&source, FUNCTIONS).map_err(|error| Failure::File {
        action: "writing",
        path: source.clone(),
        source: error,
    })?;
    capture(rustc.arg(&source))?;
    let text = fs::read_to_string(&assembly).map_err(|source| Failure::File {
        action: "reading",
        path: assembly.clone(),
        source,
    })?;
    match faults(&Assembly::new(&text)) {
        faults if faults.is_empty() => {
            println!("coherent: code for coherent memory is that for plain memory");
            Ok(())
        }
        faults => Err(Failure::Found(format!("{}: {}", assembly.display(), faults.join("; ")))),
    }
}

/// Functions of an assembly file.
struct Assembly<'a> {
    /// Instructions of each symbol.
    bodies: BTreeMap<&'a str, Vec<&'a str>>,
    /// Aliases of symbols, which the compiler emits for functions that it merged.
    aliases: BTreeMap<&'a str, &'a str>,
}

impl<'a> Assembly<'a> {
    fn new(text: &'a str) -> Assembly<'a> {
        let (mut bodies, mut aliases) = (BTreeMap::<&str, Vec<&str>>::new(), BTreeMap::new());
        let mut inside = None;
        for line in text.lines() {
            let words = line.trim();
            let alias = words
                .strip_prefix(".set ")
                .map_or_else(|| words.split_once(" = "), |set| set.split_once(", "));
            match (line.strip_suffix(':'), alias) {
                (Some(label), _) if !label.starts_with('.') => inside = Some(label),
                (None, Some((alias, name))) if alias.starts_with("_") => drop(aliases.insert(alias, name)),
                _ if words.starts_with(".cfi_endproc") => inside = None,
                _ if words.is_empty() || words.starts_with(['.', '#', '/']) || words.ends_with(':') => {}
                _ => bodies.entry(inside.unwrap_or_default()).or_default().push(words),
            }
        }
        Assembly { bodies, aliases }
    }

    /// Returns the symbol of a function of [`FUNCTIONS`]. Mangled symbols have a name's length before the
    /// name.
    fn symbol(&self, function: &str) -> Option<&'a str> {
        let name = format!("{}{function}", function.len());
        let known = self.bodies.keys().chain(self.aliases.keys());
        let symbol = known.copied().find(|symbol| symbol.contains(&name))?;
        Some(self.aliases.get(symbol).copied().unwrap_or(symbol))
    }

    /// Returns the first marker of [`SIGNS`] found in a function or in any function that it calls.
    fn sign(&self, function: &'a str) -> Option<String> {
        let (mut open, mut seen) = (vec![function], BTreeSet::from([function]));
        while let Some(symbol) = open.pop() {
            for instruction in self.bodies.get(symbol).into_iter().flatten() {
                if let Some(sign) = SIGNS.iter().find(|sign| instruction.contains(**sign)) {
                    return Some(format!("{sign} in {symbol}"));
                }
                let words =
                    instruction.split(|letter: char| !(letter.is_alphanumeric() || "_.$".contains(letter)));
                let named = words.map(|word| self.aliases.get(word).copied().unwrap_or(word));
                open.extend(named.filter(|word| self.bodies.contains_key(word) && seen.insert(word)));
            }
        }
        None
    }
}

fn faults(assembly: &Assembly<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    let mut symbol = |name: &str| {
        let found = assembly.symbol(name);
        if found.is_none() {
            faults.push(format!("there is no {name}"));
        }
        found
    };
    let pairs = PAIRS.map(|(plain, coherent)| (coherent, symbol(plain), symbol(coherent)));
    let (coherent, flushed) = (symbol("coherent_ring"), symbol("flushed_ring"));
    for (name, one, other) in pairs {
        let body = |symbol: Option<&str>| {
            symbol.and_then(|symbol| assembly.bodies.get(symbol)).map(|body| unlabelled(body))
        };
        if body(one) != body(other) {
            faults.push(format!("{name} is {:?}, and that on plain memory {:?}", body(other), body(one)));
        }
    }
    if let Some(sign) = coherent.and_then(|symbol| assembly.sign(symbol)) {
        faults.push(format!("a ring over coherent memory has {sign}"));
    }
    if flushed.is_some_and(|symbol| assembly.sign(symbol).is_none()) {
        faults.push("a ring over memory that is not coherent writes nothing back".to_owned());
    }
    faults
}

/// Strips the numbers from local labels and constants, which differ between functions.
fn unlabelled(body: &[&str]) -> Vec<String> {
    let plain = |word: &str| if word.contains(".L") { ".L".to_owned() } else { word.to_owned() };
    body.iter().map(|line| line.split_whitespace().map(plain).collect::<Vec<_>>().join(" ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAME: &str = "\
_ZN8coherent10plain_load17h0E:
\tcmpq\t%rsi, 8(%rdi)
\tjbe\t.LBB1_2
.LBB1_2:
\tleaq\t.Lanon.1(%rip), %rdx
\t.cfi_endproc
_ZN8coherent13coherent_load17h1E:
\tcmpq\t%rsi, 8(%rdi)
\tjbe\t.LBB2_2
\tleaq\t.Lanon.2(%rip), %rdx
\t.cfi_endproc
_ZN8coherent11plain_store17h2E:
\tmovq\t%rdx, (%rdi)
\t.cfi_endproc
\t.set _ZN8coherent14coherent_store17h3E, _ZN8coherent11plain_store17h2E
_ZN8coherent11plain_range17h4E:
\tretq
\t.cfi_endproc
_ZN8coherent14coherent_range17h5E = _ZN8coherent11plain_range17h4E
_ZN4ring4sendE:
\tretq
\t.cfi_endproc
_ZN4ring5flushE:
\tclflush\t(%rdi)
\t.cfi_endproc
_ZN8coherent13coherent_ring17h6E:
\tcallq\t*_ZN4ring4sendE@GOTPCREL(%rip)
\t.cfi_endproc
_ZN8coherent12flushed_ring17h7E:
\tjmp\t_ZN4ring5flushE
\t.cfi_endproc
";

    #[test]
    fn code_that_is_the_same_is_found_to_be() {
        assert_eq!(faults(&Assembly::new(SAME)), Vec::<String>::new());
    }

    #[test]
    fn an_instruction_more_and_a_flush_that_is_reached_are_faults() {
        let more = SAME.replace("\tjbe\t.LBB2_2\n", "\tjbe\t.LBB2_2\n\tmfence\n");
        assert!(faults(&Assembly::new(&more))[0].starts_with("coherent_load is"), "{more}");
        let reached = SAME.replace("_ZN4ring4sendE@GOTPCREL", "_ZN4ring5flushE@GOTPCREL");
        assert!(faults(&Assembly::new(&reached))[0].contains("clflush in _ZN4ring5flushE"));
        let never = SAME.replace("\tjmp\t_ZN4ring5flushE", "\tjmp\t_ZN4ring4sendE");
        assert!(faults(&Assembly::new(&never))[0].contains("writes nothing back"));
        let gone = SAME.replace("coherent_load", "other_load");
        assert_eq!(faults(&Assembly::new(&gone))[0], "there is no coherent_load");
    }
}
