//! Back end for C: one header per interface file, which includes `tombolo/interface.h`.

mod interfaces;
mod names;
mod read;
mod types;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use crate::check::names::snake;
use crate::model::Model;
use crate::text::Text;
use names::Names;

/// Options of the C back end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct COptions {
    /// Prefix of all names. Default: the last word of the package, followed by `_`. Names from included files
    /// have the default prefix of their own packages.
    pub prefix: Option<String>,
    /// Source that the header comment of the generated text names.
    pub origin: String,
}

impl Default for COptions {
    fn default() -> Self {
        COptions { prefix: None, origin: "an interface file".to_owned() }
    }
}

/// Error of generating a C header.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CError {
    /// Two items of an interface file would have the same name in C.
    #[error("{first} and {second} would both be called `{name}` in C: rename one of them")]
    NameTaken {
        /// Name of both items.
        name: String,
        /// Description of the first item.
        first: String,
        /// Description of the second item.
        second: String,
    },
    /// The prefix is not the start of a valid identifier.
    #[error("names in C cannot begin with `{prefix}`: use letters, digits and `_`, a letter first")]
    BadPrefix {
        /// Prefix in the options.
        prefix: String,
    },
}

/// Generates the C header for a model.
///
/// # Errors
/// [`CError`] if the prefix is invalid, or if two items would have the same name.
pub fn generate(model: &Model, options: &COptions) -> Result<String, CError> {
    let prefix = options.prefix.clone().unwrap_or_else(|| names::default_prefix(&model.package));
    let letters = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let is_beginning =
        prefix.starts_with(|first: char| first.is_ascii_alphabetic()) && prefix.chars().all(letters);
    if !(prefix.is_empty() || is_beginning) {
        return Err(CError::BadPrefix { prefix });
    }
    let names = Names::new(model, prefix);
    let mut text = Text::default();
    head(&mut text, model, options, &names);
    for constant in model.constants.iter().filter(|constant| names.is_declared_here(&constant.name)) {
        text.blank();
        text.comment(0, &constant.docs);
        let value = names::literal(constant.value);
        text.line(0, &format!("#define {} {value}", names.upper(&constant.name)));
    }
    let composites = types::all(&mut text, model, &names);
    check_distinct_names(model, &names, composites)?;
    for interface in &model.interfaces {
        interfaces::interface(&mut text, model, &names, interface);
    }
    text.line(0, "");
    text.lines(0, "#ifdef __cplusplus\n}\n#endif\n\n#endif");
    Ok(text.into_string())
}

fn head(text: &mut Text, model: &Model, options: &COptions, names: &Names<'_>) {
    text.line(0, "/*");
    for line in &model.docs {
        text.line(0, format!(" * {}", names::comment(line)).trim_end());
    }
    if !model.docs.is_empty() {
        text.line(0, " *");
    }
    text.line(
        0,
        &format!(" * Written by `tombolo idl compile --lang c` from {}.", names::comment(&options.origin)),
    );
    text.line(0, " */");
    // The include guard is named after the first interface, or after the first own type if there is none.
    let first = model.interfaces.first().map(|interface| &interface.name);
    let records = model.records.iter().map(|record| &record.name);
    let others = model.enums.iter().map(|of| &of.name).chain(model.unions.iter().map(|union| &union.name));
    let first = first.or(records.chain(others).find(|name| names.is_declared_here(name)));
    let guard = names.upper(&format!("{}_H", snake(first.map_or("types", String::as_str))));
    text.line(0, &format!("#ifndef {guard}\n#define {guard}\n\n#include <tombolo/interface.h>\n"));
    let modules: BTreeSet<&String> = model.included.values().collect();
    modules.iter().for_each(|module| text.line(0, &format!("#include \"{module}.h\"")));
    if !modules.is_empty() {
        text.line(0, "");
    }
    text.lines(0, "#ifdef __cplusplus\nextern \"C\" {\n#endif");
}

/// Checks that all names in the header are distinct.
fn check_distinct_names(
    model: &Model,
    names: &Names<'_>,
    composites: Vec<(String, String)>,
) -> Result<(), CError> {
    let mut taken: BTreeMap<String, String> = BTreeMap::new();
    let mut add = |name: String, what: String| match taken.insert(name.clone(), what.clone()) {
        Some(first) if first != what => Err(CError::NameTaken { name, first, second: what }),
        _ => Ok(()),
    };
    for (name, what) in composites {
        add(name, what)?;
    }
    let types = model.enums.iter().map(|of| &of.name).chain(model.records.iter().map(|record| &record.name));
    for name in types.chain(model.unions.iter().map(|union| &union.name)) {
        let type_name = names.lower(name);
        for part in ["", "_put", "_get", "_is_known", "_name"] {
            add(format!("{type_name}{part}"), format!("`{name}`"))?;
        }
    }
    for record in &model.records {
        add(names.value(&record.name, "BYTES"), format!("the length of `{}`", record.name))?;
    }
    for of in &model.enums {
        for value in &of.values {
            let what = format!("`{}` of `{}`", value.name, of.name);
            add(names.value(&of.name, &value.name), what)?;
        }
    }
    for union in &model.unions {
        for case in &union.cases {
            let what = format!("`{}` of `{}`", case.name, union.name);
            add(names.value(&union.name, &case.name), what)?;
        }
    }
    for constant in &model.constants {
        add(names.upper(&constant.name), format!("constant `{}`", constant.name))?;
    }
    for interface in &model.interfaces {
        interfaces::names(names, interface, &mut add)?;
    }
    Ok(())
}

impl Text {
    /// Writes the documentation, if any, as a comment.
    fn comment(&mut self, depth: usize, docs: &[String]) {
        match docs {
            [] => {}
            [one] => self.line(depth, &format!("/* {} */", names::comment(one))),
            [first, rest @ ..] => {
                self.line(depth, &format!("/* {}", names::comment(first)));
                for (index, line) in rest.iter().enumerate() {
                    let end = if index + 1 == rest.len() { " */" } else { "" };
                    self.line(depth, format!(" * {}{end}", names::comment(line)).trim_end());
                }
            }
        }
    }
}
