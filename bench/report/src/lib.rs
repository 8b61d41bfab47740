//! Pages and plots from the results of `tombolo bench all --json` and `tombolo bench bulk --json`.
#![forbid(unsafe_code)]

mod chart;
mod page;
mod plots;
mod targets;
mod units;

use std::fs;
use std::path::{Path, PathBuf};

use tombolo_bench::suite::Results;

/// Error of generating a report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file or folder of the report cannot be written.
    #[error("{path}: cannot be written: {error}")]
    Write {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        error: std::io::Error,
    },
    /// A plot cannot be drawn.
    #[error("a plot of {label} cannot be drawn: {why}")]
    Plot {
        /// Label of the results.
        label: String,
        /// Error of the drawing library.
        why: String,
    },
}

/// File of a report: name and content.
pub type File = (String, String);

/// Generates the files of a report: an index, and for each host a page with its plots.
///
/// # Errors
/// [`ReportError::Plot`].
pub fn files(results: &[Results]) -> Result<Vec<File>, ReportError> {
    let mut hosts: Vec<(String, &Results, Vec<plots::Plot>)> = Vec::new();
    for results in results {
        let plain = slug(&results.label);
        let same = hosts
            .iter()
            .filter(|(slug, ..)| *slug == plain || slug.starts_with(&format!("{plain}-")))
            .count();
        let slug = if same == 0 { plain } else { format!("{plain}-{}", same + 1) };
        let plots = plots::all(results)
            .map_err(|error| ReportError::Plot { label: results.label.clone(), why: error.to_string() })?;
        hosts.push((slug, results, plots));
    }
    let mut files = vec![("README.md".to_owned(), page::index(&hosts))];
    for (slug, results, plots) in hosts {
        files.push((format!("{slug}.md"), page::host(&slug, results, &plots)));
        files.extend(plots.into_iter().map(|plot| (format!("{slug}-{}.svg", plot.name), plot.svg)));
    }
    Ok(files)
}

/// Writes a report into a folder, which is created if it does not exist.
///
/// # Errors
/// [`ReportError`].
pub fn write(results: &[Results], folder: &Path) -> Result<(), ReportError> {
    let failed = |path: &Path, error| ReportError::Write { path: path.to_owned(), error };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for (name, content) in files(results)? {
        let path = folder.join(name);
        fs::write(&path, content).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// Converts a label into the prefix of file names.
fn slug(label: &str) -> String {
    let plain: String =
        label.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let words: Vec<&str> = plain.split('-').filter(|word| !word.is_empty()).collect();
    if words.is_empty() { "host".into() } else { words.join("-") }
}

#[cfg(test)]
mod tests {
    use tombolo_bench::fixture::results;

    use super::*;

    #[test]
    fn every_host_has_a_page_and_plots_of_its_own() {
        let files = files(&[results("Two cores"), results("two  cores!")]).expect("files");
        let page = |wanted: &str| {
            let found = files.iter().find(|(name, _)| name == wanted);
            &found.unwrap_or_else(|| panic!("no {wanted}")).1
        };
        assert!(page("README.md").contains("| [Two cores](two-cores.md) | Some <CPU> | 2 |"));
        let first = page("two-cores.md");
        for part in [
            "# Two cores\n",
            "(two-cores-round-trip-64.svg)",
            "- **ZeroMQ** is not there: it was not built",
            "| Tombolo | one cache | 108 ns | 162 ns | 270 ns | 108 ns | 100 ns | 1.08 | 7 |  |",
        ] {
            assert!(first.contains(part), "no '{part}' in\n{first}");
        }
        assert!(page("two-cores-2.md").contains("(two-cores-2-bandwidth.svg)"));
        let names: std::collections::BTreeSet<&String> = files.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), files.len());
        let pages: String =
            files.iter().filter(|(name, _)| name.ends_with(".md")).map(|(_, page)| page.as_str()).collect();
        for (name, content) in files.iter().filter(|(name, _)| name != "README.md") {
            assert!(pages.contains(&format!("({name})")), "{name} is not linked");
            if name.ends_with(".svg") {
                assert!(content.starts_with("<svg ") && content.trim_end().ends_with("</svg>"), "{name}");
                assert!(!content.contains("NaN") && !content.contains("inf"), "{name}");
            }
        }
    }

    #[test]
    fn results_without_figures_still_make_a_page() {
        let mut empty = results("empty");
        (empty.rows, empty.pairs, empty.placement) = (Vec::new(), Vec::new(), Vec::new());
        let files = files(&[empty]).expect("files");
        assert_eq!(
            files.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["README.md", "empty.md"]
        );
        assert!(files[1].1.contains("not measured"));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let error =
            write(&[results("here")], Path::new("/proc/nothing")).expect_err("the folder cannot be made");
        assert!(error.to_string().starts_with("/proc/nothing: cannot be written"), "{error}");
    }

    /// The committed pages of `docs/results` match the JSON files there.
    #[test]
    fn committed_page_matches_its_files() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
        let mut paths: Vec<_> = fs::read_dir(&folder)
            .expect("the folder is there")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .collect();
        paths.sort();
        let results: Vec<Results> = paths.iter().map(|path| Results::read(path).expect("results")).collect();
        for (name, content) in files(&results).expect("files") {
            let present = fs::read_to_string(folder.join(&name)).unwrap_or_default();
            assert!(present == content, "docs/results/{name} is stale: `make results` writes it anew");
        }
    }
}
