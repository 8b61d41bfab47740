//! Dependency graph of the packages in this machine's package lists.
//!
//! A vertex is a package name; versions and architectures are merged. An edge joins a package with its
//! dependencies (`Depends`, `Pre-Depends`) and recommendations (`Recommends`). Of alternatives `a | b`, the
//! first that is a real package counts; if there is none, all providers of the first one that is provided.
//! Version constraints and `:any` are ignored.

use std::collections::HashMap;
use std::io::Read;
use std::process::{Command, Stdio};

use super::text::{Lines, Progress, quote};
use super::{Duplicates, Edge, Input, NameTable, Names, ReadError};

/// Name of the source in errors and reports.
pub const SOURCE: &str = "apt-cache dumpavail";

/// Runs `apt-cache dumpavail` and reads its output as it arrives.
///
/// # Errors
/// There is no `apt-cache`, it failed, or it knows no packages.
pub fn read_packages(watch: &mut dyn FnMut(Progress)) -> Result<Input, ReadError> {
    let mut child = Command::new("apt-cache")
        .arg("dumpavail")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| ReadError::NoPackageLists { problem: format!("cannot run apt-cache: {source}") })?;
    let stdout = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read>);
    let stdout = stdout.unwrap_or_else(|| Box::new(std::io::empty()));
    let parsed = Lines::new(SOURCE.to_owned(), stdout, None, watch).and_then(|mut lines| parse(&mut lines));
    // The pipe is closed, so the child exits even if its output was not read to the end.
    let output =
        child.wait_with_output().map_err(|source| ReadError::Io { name: SOURCE.to_owned(), source })?;
    if parsed.is_ok() && !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(ReadError::NoPackageLists {
            problem: format!("apt-cache dumpavail failed ({}): {}", output.status, said.trim()),
        });
    }
    parsed
}

/// Reads package records in the form of `apt-cache dumpavail` or of a `Packages` file.
///
/// # Errors
/// The source cannot be read, a record is malformed, or there is no record.
pub fn parse(lines: &mut Lines<'_>) -> Result<Input, ReadError> {
    let mut archive = Archive::default();
    let mut record = Record::default();
    while lines.advance()? {
        let line = lines.line();
        if line.is_empty() {
            archive.add(&record);
            record.clear();
        } else if !record.take(line) {
            return Err(lines.malformed("`Field: value` of a package record", quote(line)));
        }
    }
    archive.add(&record);
    archive.into_input(lines)
}

/// Relevant fields of one record, as text.
#[derive(Default)]
struct Record {
    package: Vec<u8>,
    needs: Vec<u8>,
    provides: Vec<u8>,
    field: Field,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Field {
    #[default]
    Other,
    Package,
    Needs,
    Provides,
}

impl Record {
    fn clear(&mut self) {
        self.package.clear();
        self.needs.clear();
        self.provides.clear();
        self.field = Field::Other;
    }

    /// Parses a line; returns `false` if it is neither a field nor the continuation of one.
    fn take(&mut self, line: &[u8]) -> bool {
        let value = if matches!(line[0], b' ' | b'\t') {
            line
        } else {
            let Some(colon) = line.iter().position(|&byte| byte == b':') else { return false };
            self.field = match &line[..colon] {
                b"Package" => Field::Package,
                b"Depends" | b"Pre-Depends" | b"Recommends" => Field::Needs,
                b"Provides" => Field::Provides,
                _ => Field::Other,
            };
            &line[colon + 1..]
        };
        let text = match self.field {
            Field::Other => return true,
            Field::Package => &mut self.package,
            Field::Needs => &mut self.needs,
            Field::Provides => &mut self.provides,
        };
        // `Depends` and `Recommends` go into one list.
        if !text.is_empty() && !value.is_empty() && self.field != Field::Package && line[0] != b' ' {
            text.push(b',');
        }
        text.extend_from_slice(value);
        true
    }
}

/// All records, by the names that occur; which of these are packages is only known at the end.
#[derive(Default)]
struct Archive {
    names: NameTable,
    /// Whether there is a package of that name, by name number.
    is_package: Vec<bool>,
    /// Pairs of package and virtual package.
    provided: Vec<(u32, u32)>,
    /// Pairs of package and the start of its alternatives in `alternatives`.
    needs: Vec<(u32, usize)>,
    alternatives: Vec<u32>,
}

impl Archive {
    fn add(&mut self, record: &Record) {
        let package = record.package.trim_ascii();
        if package.is_empty() {
            return;
        }
        let package = self.intern(package);
        self.is_package[package as usize] = true;
        for name in record.provides.split(|&byte| byte == b',').filter_map(bare_name) {
            let name = self.intern(name);
            self.provided.push((package, name));
        }
        for group in record.needs.split(|&byte| byte == b',') {
            self.needs.push((package, self.alternatives.len()));
            for name in group.split(|&byte| byte == b'|').filter_map(bare_name) {
                let name = self.intern(name);
                self.alternatives.push(name);
            }
        }
    }

    /// Returns the number of a name. Package lists are far too small to use up 32 bits; if they did, the last
    /// number would stand for all further names.
    fn intern(&mut self, name: &[u8]) -> u32 {
        let number = self.names.intern(name).unwrap_or(super::MAX_VERTICES as u32 - 1);
        if self.is_package.len() < self.names.len() {
            self.is_package.resize(self.names.len(), false);
        }
        number
    }

    fn into_input(self, lines: &Lines<'_>) -> Result<Input, ReadError> {
        // Sort packages by name: the order of the lists must not matter.
        let mut packages: Vec<u32> =
            (0..self.names.len() as u32).filter(|&name| self.is_package[name as usize]).collect();
        packages.sort_unstable_by_key(|&name| self.names.bytes(name));
        if packages.is_empty() {
            return Err(ReadError::NoPackageLists { problem: "the package lists are empty".to_owned() });
        }
        let mut sorted = NameTable::default();
        let mut vertex_of = vec![u32::MAX; self.names.len()];
        for (vertex, &name) in packages.iter().enumerate() {
            sorted.intern(self.names.bytes(name));
            vertex_of[name as usize] = vertex as u32;
        }
        let edges = self.edges(&vertex_of);
        Input::build(lines, packages.len(), &edges, Duplicates::Collapse, Names::Listed(sorted), "packages")
    }

    fn edges(&self, vertex_of: &[u32]) -> Vec<Edge> {
        let mut providers: HashMap<u32, Vec<u32>> = HashMap::new();
        for &(package, name) in &self.provided {
            providers.entry(name).or_default().push(package);
        }
        let mut edges = Vec::new();
        let ends = self.needs.iter().skip(1).map(|&(_, start)| start).chain([self.alternatives.len()]);
        for (&(package, start), end) in self.needs.iter().zip(ends) {
            let group = &self.alternatives[start..end];
            let real = group.iter().find(|&&name| self.is_package[name as usize]);
            let needed: &[u32] = match real {
                Some(name) => std::slice::from_ref(name),
                None => group.iter().find_map(|name| providers.get(name)).map_or(&[], Vec::as_slice),
            };
            for &other in needed.iter().filter(|&&other| other != package) {
                let (source, target) = (vertex_of[package as usize], vertex_of[other as usize]);
                edges.push(Edge { source, target, weight: 1 });
            }
        }
        edges
    }
}

/// Returns the bare name: `libc6` for ` libc6:any (>= 2.34) [amd64]`.
fn bare_name(text: &[u8]) -> Option<&[u8]> {
    let text = text.trim_ascii();
    let end = text.iter().position(|byte| b" \t(:[<".contains(byte)).unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &'static str) -> Result<Input, ReadError> {
        let mut watch = |_| ();
        parse(&mut Lines::new("test".to_owned(), text.as_bytes(), None, &mut watch)?)
    }

    fn neighbours(input: &Input, name: &str) -> Vec<String> {
        let vertices = 0..input.graph.vertices() as u32;
        let vertex = vertices.clone().find(|&vertex| input.names.name(vertex) == name).expect("the package");
        input.graph.arcs_of(vertex).map(|(target, _)| input.names.name(target).into_owned()).collect()
    }

    #[test]
    fn alternatives_versions_architectures_and_virtual_packages() {
        let input = parse_text(
            "Package: app\nDepends: libc:any (>= 2), none | mail-agent,\n editor [amd64]\nRecommends: missing\n\n\
             Package: libc\n\nPackage: postfix\nProvides: mail-agent (= 1), mta\nDepends: mta, libc | app\n\n\
             Package: exim\nProvides: mail-agent\n\nPackage: editor\n\n\
             Package: app\nArchitecture: arm64\nDepends: libc\n",
        )
        .unwrap();
        assert_eq!(input.graph.vertices(), 5);
        assert_eq!(neighbours(&input, "app"), ["editor", "exim", "libc", "postfix"]);
        assert_eq!(neighbours(&input, "libc"), ["app", "postfix"]);
        assert_eq!(neighbours(&input, "exim"), ["app"]);
    }

    #[test]
    fn no_packages_and_no_record() {
        assert!(matches!(parse_text(""), Err(ReadError::NoPackageLists { .. })));
        let error = parse_text("Package: a\nnonsense\n").expect_err("an error").to_string();
        assert_eq!(error, "test:2: expected `Field: value` of a package record, found `nonsense`");
    }
}
