//! `cargo xtask tidy`: rules for the tree beyond those of the compiler and clippy.
//!
//! Each rule is a function from the [`Tree`] to findings, with tests on trees that violate it.

mod cycles;
mod dependencies;
mod english;
mod examples;
mod fence;
mod length;
mod locks;
mod mutants;
mod protocol;
mod source;
mod words;

use std::fmt;
use std::path::PathBuf;

use crate::codegen;
use crate::failure::Failure;
use crate::layers::Layers;
use crate::workspace::{Package, TextFile, Workspace};

/// Input of all rules. Rules read nothing else, so that tests can construct it.
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    pub(crate) layers: Layers,
    pub(crate) packages: Vec<Package>,
    pub(crate) files: Vec<TextFile>,
}

/// Violation of a rule, with its position.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    /// Line number from 1; 0 for the whole file.
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl Finding {
    fn new(path: impl Into<String>, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.into(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(out, "{}: {}", self.path, self.message),
            line => write!(out, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// A rule: its name and its function.
type Rule = (&'static str, fn(&Tree) -> Vec<Finding>);

const RULES: &[Rule] = &[
    ("layers", dependencies::layers),
    ("licence", dependencies::licence),
    ("published crates", dependencies::published),
    ("lock files", locks::locks),
    ("unsafe", fence::unsafe_code),
    ("lints", fence::lints),
    ("SAFETY comments", fence::safety_comments),
    ("no_std crates", protocol::no_std),
    ("length of files", length::lines),
    ("unfinished code", words::unfinished),
    ("banned words", words::banned),
    ("white space", words::white_space),
    ("width of comments", english::comment_width),
    ("summaries", english::summaries),
    ("idioms", english::idioms),
    ("dead files", dependencies::dead_files),
    ("circles of modules", cycles::circles),
    ("examples", examples::doc_tests),
    ("excluded mutants", mutants::excluded_names),
];

/// Runs every rule and prints the findings.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    let tree = Tree {
        root: workspace.root.clone(),
        layers: Layers::load(&workspace.root)?,
        packages: workspace.packages.clone(),
        files: workspace.text_files()?,
    };
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|(_, rule)| rule(&tree)).collect();
    findings.extend(stale_files(workspace)?);
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    for line in english::exempt_summary(&tree) {
        println!("tidy: {line}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} rules hold over {} files", RULES.len() + 1, tree.files.len());
            Ok(())
        }
        count => Err(Failure::Found(format!("tidy found {count} things to put right"))),
    }
}

fn stale_files(workspace: &Workspace) -> Result<Vec<Finding>, Failure> {
    let stale = codegen::stale(workspace, codegen::Cost::Cheap)?;
    let message = "is stale; `cargo xtask codegen` writes it anew";
    Ok(stale.into_iter().map(|path| Finding::new(path, 0, message)).collect())
}

impl Tree {
    /// Returns the Rust sources of a crate: files in its folder that belong to no nested crate.
    fn sources<'a>(&'a self, package: &Package) -> impl Iterator<Item = &'a TextFile> {
        let folder = format!("{}/", package.folder(&self.root));
        // A folder with its own manifest is another package, in this workspace or in a separate one.
        let inner: Vec<String> = self
            .files
            .iter()
            .filter_map(|file| file.path.strip_suffix("Cargo.toml"))
            .filter(|other| other.len() > folder.len() && other.starts_with(&folder))
            .map(str::to_owned)
            .collect();
        self.files.iter().filter(move |file| {
            file.path.ends_with(".rs")
                && file.path.starts_with(&folder)
                && !inner.iter().any(|folder| file.path.starts_with(folder))
        })
    }

    /// Returns the path of a crate's manifest in the tree.
    fn manifest(&self, package: &Package) -> String {
        format!("{}/Cargo.toml", package.folder(&self.root))
    }

    fn file(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

/// Small trees for the tests of the rules.
#[cfg(test)]
mod fixture {
    use super::*;
    use crate::workspace::Dependency;

    const LAYERS: &str = r#"
        layer = [
            { name = "base", folder = "base", crates = ["base"], purpose = "" },
            { name = "platform", folder = "platform", crates = ["platform"], purpose = "" },
            { name = "protocol", folder = "protocol", crates = ["ring", "link"],
              apart_from = ["platform"], purpose = "" },
            { name = "examples", folder = "examples", crates = ["example"], only = ["link"], purpose = "" },
        ]
        checks = { unsafe_allowed = ["base"], no_std = ["ring"], miri = [], bounds = [], loom = [] }
        lines = { max = 3, exceptions = {} }
        banned = { "secret" = "it is one" }
        english = { idioms = { "private idiom" = "say it plainly" } }
    "#;

    /// A tree with the layers base, platform, protocol (ring, link; not platform) and examples (only link).
    pub(crate) fn tree() -> Tree {
        Tree {
            root: PathBuf::from("/tree"),
            layers: Layers::parse(LAYERS).expect("the fixture's layers"),
            packages: Vec::new(),
            files: Vec::new(),
        }
    }

    impl Tree {
        /// Adds a crate that depends on `dependencies`.
        pub(crate) fn with_crate(mut self, name: &str, folder: &str, dependencies: &[&str]) -> Self {
            let dependency = |name: &&str| Dependency {
                name: (*name).to_owned(),
                path: Some(PathBuf::from("/tree/somewhere")),
                kind: None,
                optional: false,
            };
            self.packages.push(Package {
                name: name.to_owned(),
                manifest_path: PathBuf::from(format!("/tree/{folder}/Cargo.toml")),
                license: Some(super::dependencies::LICENCE.to_owned()),
                description: None,
                documentation: None,
                readme: None,
                publish: Some(Vec::new()),
                dependencies: dependencies.iter().map(dependency).collect(),
                targets: Vec::new(),
            });
            self
        }

        /// Adds a file.
        pub(crate) fn with_file(mut self, path: &str, text: &str) -> Self {
            self.files.push(TextFile { path: path.to_owned(), text: text.to_owned() });
            self
        }
    }

    /// Returns the only finding, as it is printed.
    #[track_caller]
    pub(crate) fn only(findings: &[Finding]) -> String {
        assert_eq!(findings.len(), 1, "{findings:?}");
        findings[0].to_string()
    }
}
