//! Functions that sources mark with `TOMBOLO_MIGRATE`.

use std::collections::BTreeMap;

use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _};

use crate::input::{ObjectError, for_each_object};
use crate::types::MARK_PREFIX;

/// Section with the names of the functions that an object marks.
const SECTION: &str = ".tombolo.migrate";

/// Marked functions of a build.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Marks {
    /// Marked functions, each with whether the object that marks it also defines it globally.
    pub(crate) functions: BTreeMap<String, bool>,
}

impl Marks {
    /// Collects the marks of an object, or of all members of an archive.
    pub(crate) fn scan(&mut self, bytes: &[u8], path: &str) -> Result<(), ObjectError> {
        for_each_object(bytes, path, |object| self.scan_object(object))
    }

    fn scan_object(&mut self, bytes: &[u8]) -> Result<(), object::Error> {
        let file = ElfFile64::<Endianness>::parse(bytes)?;
        for section in file.sections().filter(|section| section.name() == Ok(SECTION)) {
            let data = section.data()?;
            for name in data.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
                let name = String::from_utf8_lossy(name).into_owned();
                let mark = format!("{MARK_PREFIX}{name}");
                let defined = |wanted: &str| {
                    file.symbols().any(|symbol| {
                        symbol.is_global() && symbol.is_definition() && symbol.name() == Ok(wanted)
                    })
                };
                let is_defined = defined(&mark) && defined(&name);
                *self.functions.entry(name).or_default() |= is_defined;
            }
        }
        Ok(())
    }
}
