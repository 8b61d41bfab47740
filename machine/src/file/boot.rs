//! Boot files of a virtual machine that replace those of the kit.

use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::report::Problem;
use super::values::{Reader, with_article};
use crate::model::{Boot, VmNode};

const KERNEL_NOTE: &str = "kernel: a kernel as the emulator boots it, in place of the kit's";
const MODULES_NOTE: &str =
    "modules: the folder with modules of that kernel, and the file `order` that lists them";
const ROOT_NOTE: &str = "root: a raw image of a file system, which becomes the node's root";
const DISKS_NOTE: &str = "disks: raw images, the node's /dev/vda, /dev/vdb and so on, after `root`";

/// Reads the paths, which are relative to the machine file. Missing files are reported when the node starts.
pub(super) fn read(reader: &mut Reader, table: &DeTable<'_>, folder: &Path) -> Boot {
    let mut path = |key: &'static str, note: &str| {
        let value = reader.value(table, key)?;
        reader.path(key, value, note).map(|path| folder.join(path))
    };
    let kernel = path("kernel", KERNEL_NOTE);
    let modules = path("modules", MODULES_NOTE);
    let root = path("root", ROOT_NOTE);
    if let (None, Some(value)) = (reader.value(table, "kernel"), reader.value(table, "modules")) {
        let problem = Problem::new(value.span(), "`modules` without `kernel`");
        reader.report(problem.label("the kit's kernel has its own").note(MODULES_NOTE));
    }
    Boot { kernel, modules, root, disks: disks(reader, table, folder) }
}

fn disks(reader: &mut Reader, table: &DeTable<'_>, folder: &Path) -> Vec<PathBuf> {
    let Some(value) = reader.value(table, "disks") else { return Vec::new() };
    let DeValue::Array(array) = value.get_ref() else {
        let found = with_article(value.get_ref().type_str());
        let problem = Problem::new(value.span(), format!("`disks` must be a list of files, not {found}"));
        reader.report(problem.note(DISKS_NOTE));
        return Vec::new();
    };
    if array.len() > VmNode::DISKS {
        let problem = Problem::new(value.span(), format!("`disks` names {} files", array.len()));
        reader.report(problem.label(format!("at most {}", VmNode::DISKS)).note(DISKS_NOTE));
        return Vec::new();
    }
    let paths = array.iter().filter_map(|item| reader.path("disks", item, DISKS_NOTE));
    paths.map(|path| folder.join(path)).collect()
}
