//! Back end for Rust: one module per interface file.

mod interfaces;
mod names;
pub mod owned;
mod types;

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Model;
use crate::text::Text;

/// Path of the stubs' runtime in programs, which depend only on the crate `tombolo`.
pub const RUNTIME: &str = "tombolo::interface";

/// Options of the Rust back end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RustOptions {
    /// Path of the runtime in the crate that contains the generated code: [`RUNTIME`], or `tombolo_interface`
    /// in crates that `tombolo` depends on.
    pub runtime: String,
    /// Source that the header comment of the generated text names.
    pub origin: String,
}

impl Default for RustOptions {
    fn default() -> Self {
        RustOptions { runtime: RUNTIME.to_owned(), origin: "an interface file".to_owned() }
    }
}

/// Two items of an interface file would have the same name in Rust.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{first} and {second} would both be called `{name}` in Rust: rename one of them")]
pub struct NameTaken {
    name: String,
    first: String,
    second: String,
}

/// Generates the Rust module for a model.
///
/// # Errors
/// [`NameTaken`] if two items would have the same name.
pub fn generate(model: &Model, options: &RustOptions) -> Result<String, NameTaken> {
    check_distinct_names(model)?;
    let mut text = Text::default();
    head(&mut text, model, &options.runtime, &options.origin);
    let own = |name: &str| !model.included.contains_key(name);
    model.enums.iter().filter(|of| own(&of.name)).for_each(|of| types::enumeration(&mut text, of));
    for record in model.records.iter().filter(|record| own(&record.name)) {
        types::record(&mut text, model, record);
    }
    model
        .unions
        .iter()
        .filter(|union| own(&union.name))
        .for_each(|union| types::union(&mut text, model, union));
    for interface in &model.interfaces {
        interfaces::interface(&mut text, model, interface);
    }
    Ok(text.into_string())
}

/// Writes the start of a module: its documentation, imports and constants.
fn head(text: &mut Text, model: &Model, runtime: &str, origin: &str) {
    for line in &model.docs {
        text.line(0, format!("//! {line}").trim_end());
    }
    if !model.docs.is_empty() {
        text.line(0, "//!");
    }
    text.line(0, &format!("//! Written by `tombolo idl compile` from {origin}."));
    text.line(0, "");
    text.line(0, &format!("use {runtime} as rt;"));
    let modules: BTreeSet<&String> = model.included.values().collect();
    for module in modules {
        text.line(0, "#[allow(unused_imports, reason = \"not every item of the file is used\")]");
        text.line(0, &format!("use super::{}::*;", names::lower(module)));
    }
    let own = |name: &str| !model.included.contains_key(name);
    for constant in model.constants.iter().filter(|constant| own(&constant.name)) {
        text.line(0, "");
        text.docs(0, &constant.docs, &format!("`{}`.", constant.name));
        let of = if constant.value < 0 { "i64" } else { "u64" };
        text.line(0, &format!("pub const {}: {of} = {};", constant.name, constant.value));
    }
}

/// Names that the code of every module uses, unqualified or as type parameters. No item may have them.
const GENERATED_NAMES: [&str; 10] =
    ["E", "Err", "From", "None", "Ok", "Option", "P", "Result", "Self", "Some"];

fn check_distinct_names(model: &Model) -> Result<(), NameTaken> {
    let used = GENERATED_NAMES.map(|name| (name.to_owned(), format!("`{name}`, which generated code uses,")));
    let mut names: BTreeMap<String, String> = BTreeMap::from(used);
    let mut add = |name: String, what: String| match names.insert(name.clone(), what.clone()) {
        Some(first) => Err(NameTaken { name, first, second: what }),
        None => Ok(()),
    };
    for of in &model.enums {
        add(of.name.clone(), format!("`{}`", of.name))?;
    }
    let records = model.records.iter().map(|record| &record.name);
    for name in records.chain(model.unions.iter().map(|union| &union.name)) {
        add(name.clone(), format!("`{name}`"))?;
        add(format!("{name}View"), format!("the view of `{name}`"))?;
    }
    for interface in &model.interfaces {
        let name = &interface.name;
        add(name.clone(), format!("interface `{name}`"))?;
        for part in ["Client", "Server", "Handler", "Events", "Answer"] {
            add(format!("{name}{part}"), format!("the {} of `{name}`", part.to_lowercase()))?;
        }
        for message in interface.messages.iter().filter(|message| interfaces::is_call(message)) {
            let what = format!("call `{}` of `{name}`", message.name);
            add(interfaces::marker(interface, message), what)?;
        }
    }
    Ok(())
}

impl Text {
    /// Writes doc comments, or `otherwise` for an item without documentation.
    fn docs(&mut self, depth: usize, docs: &[String], otherwise: &str) {
        if docs.is_empty() {
            self.line(depth, &format!("/// {otherwise}"));
        }
        docs.iter().for_each(|line| self.line(depth, format!("/// {line}").trim_end()));
    }
}
