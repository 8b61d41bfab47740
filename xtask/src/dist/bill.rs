//! Software bill of materials of the third-party code in packages: as SPDX, and as a file with the licence
//! texts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::Package;
use crate::failure::Failure;
use crate::installation::VERSION;
use crate::workspace::capture;

/// Workspace packages whose programs and libraries are installed.
const INSTALLED_CRATES: &[&str] = &[
    "tombolo-cli",
    "tombolo-cli-bench",
    "tombolo-cli-mpi",
    "tombolo-cli-omp",
    "tombolo-cli-watch",
    "tombolod",
    "tombolo-board",
    "tombolo-c",
    "tombolo-rcce",
    "tombolo-python",
    "tombolo-mpi-provider",
    "tombolo-mpi-sched-yield",
    "tombolo-gomp",
    "tombolo-bench-far",
    "tombolo-bounded",
    "tombolo-devices",
    "tombolo-copy-server",
    "tombolo-hub-server",
    "tombolo-xipx-server",
    "tombolo-litmus",
    "tombolo-remote-peer",
    "pingpong",
    "bare-pingpong",
];

/// Third-party files of the kit: the file that lists their packages, their origin and their licence.
const PREBUILT_PACKAGES: [(&str, &str, &str); 6] = [
    ("aarch64/vm-kit", "Debian", "GPL-2.0-only"),
    ("riscv64/vm-kit", "Debian", "GPL-2.0-only"),
    ("mpi/x86_64.from", "the Python Package Index", "LicenseRef-MPICH"),
    ("mpi/aarch64.from", "the Python Package Index and Debian", "LicenseRef-MPICH AND LGPL-2.1-or-later"),
    ("omp/x86_64.from", "Debian", "MIT"),
    ("omp/aarch64.from", "Debian", "MIT"),
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Crate>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Crate {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    /// `None` for crates of the tree.
    source: Option<String>,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Deserialize)]
struct EdgeKind {
    /// `None` for normal dependencies, which are linked.
    kind: Option<String>,
}

impl Package<'_> {
    /// Returns the files of the bill with their names.
    pub(super) fn sbom(&self) -> Result<[(&'static str, String); 2], Failure> {
        let mut cargo = self.workspace.cargo();
        cargo.args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            self.architecture.triple,
        ]);
        let metadata: Metadata = serde_json::from_str(&capture(&mut cargo)?)
            .map_err(|error| Failure::malformed("cargo metadata", error))?;
        let linked = linked_crates(&metadata);
        let others: Vec<&Crate> = linked.iter().copied().filter(|it| it.source.is_some()).collect();
        let lock = self.workspace.root.join("Cargo.lock");
        let lock = fs::read_to_string(&lock).map_err(Failure::file("reading", &lock))?;
        let fetched = self.prebuilt_packages();
        let bill = spdx(self, &others, &checksums(&lock), &fetched);
        Ok([("tombolo.spdx.json", format!("{bill:#}\n")), ("THIRD-PARTY-LICENCES.txt", licences(&others)?)])
    }

    /// Returns the prebuilt third-party packages in the kit, with their origin and licence.
    fn prebuilt_packages(&self) -> Vec<(String, &'static str, &'static str)> {
        let kit = self.workspace.target.join("kit");
        let mut found = Vec::new();
        for (file, origin, licence) in PREBUILT_PACKAGES {
            // A file missing from the kit is missing from the package too.
            let text = fs::read_to_string(kit.join(file)).unwrap_or_default();
            found.extend(text.split_whitespace().skip(1).map(|name| (name.to_owned(), origin, licence)));
        }
        found
    }
}

/// Returns the crates linked into installed programs, by name and version.
fn linked_crates(metadata: &Metadata) -> Vec<&Crate> {
    let crates: BTreeMap<&str, &Crate> = metadata.packages.iter().map(|it| (it.id.as_str(), it)).collect();
    let nodes: BTreeMap<&str, &Node> = metadata.resolve.nodes.iter().map(|it| (it.id.as_str(), it)).collect();
    let runs_in_compilers =
        |it: &Crate| it.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "proc-macro"));
    let mut waiting: Vec<&Crate> = metadata
        .packages
        .iter()
        .filter(|it| it.source.is_none() && INSTALLED_CRATES.contains(&it.name.as_str()))
        .collect();
    let mut found = BTreeMap::new();
    while let Some(it) = waiting.pop() {
        if runs_in_compilers(it) || found.insert((&it.name, &it.version), it).is_some() {
            continue;
        }
        let Some(node) = nodes.get(it.id.as_str()) else { continue };
        let used = node.deps.iter().filter(|edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none()));
        waiting.extend(used.filter_map(|edge| crates.get(edge.pkg.as_str())));
    }
    found.into_values().collect()
}

/// Parses Cargo.lock into a map from crate name and version to checksum.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |line: &str, key: &str| {
        line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"').map(str::to_owned)
    };
    let of = |entry: &str| {
        let field = |key| entry.lines().find_map(|line| value(line, key));
        Some(((field("name")?, field("version")?), field("checksum")?))
    };
    lock.split("[[package]]").filter_map(of).collect()
}

fn spdx(
    package: &Package<'_>,
    crates: &[&Crate],
    checksums: &BTreeMap<(String, String), String>,
    fetched: &[(String, &'static str, &'static str)],
) -> Value {
    let isa = package.architecture.isa;
    let mut packages = vec![json!({
        "SPDXID": "SPDXRef-tombolo", "name": "tombolo", "versionInfo": VERSION, "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false, "licenseDeclared": "Apache-2.0 OR MIT", "primaryPackagePurpose": "APPLICATION",
    })];
    for it in crates {
        let mut entry = json!({
            "SPDXID": id("crate", &[&it.name, &it.version]), "name": it.name, "versionInfo": it.version,
            "downloadLocation": format!("https://static.crates.io/crates/{0}/{0}-{1}.crate", it.name, it.version),
            "filesAnalyzed": false,
            // Old manifests use a slash for "OR".
            "licenseDeclared": it.license.as_deref().map_or("NOASSERTION".to_owned(), |it| it.replace('/', " OR ")),
            "externalRefs": [{
                "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                "referenceLocator": format!("pkg:cargo/{}@{}", it.name, it.version),
            }],
        });
        if let Some(hash) = checksums.get(&(it.name.clone(), it.version.clone())) {
            entry["checksums"] = json!([{ "algorithm": "SHA256", "checksumValue": hash }]);
        }
        packages.push(entry);
    }
    for (name, origin, licence) in fetched {
        packages.push(json!({
            "SPDXID": id("fetched", &[name]), "name": name, "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
            "licenseDeclared": licence, "comment": format!("built by others; from {origin}"),
        }));
    }
    let contained: Vec<Value> = packages[1..]
        .iter()
        .map(|it| {
            json!({ "spdxElementId": "SPDXRef-tombolo", "relationshipType": "CONTAINS", "relatedSpdxElement": it["SPDXID"] })
        })
        .collect();
    json!({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": format!("tombolo-{VERSION}-{isa}"),
        "documentNamespace": format!("https://spdx.org/spdxdocs/tombolo-{VERSION}-{isa}-{}", package.time),
        "creationInfo": { "created": utc(package.time), "creators": ["Tool: tombolo-xtask"] },
        "documentDescribes": ["SPDXRef-tombolo"],
        "hasExtractedLicensingInfos": [{
            "licenseId": "LicenseRef-MPICH", "extractedText": "The licence of MPICH, in kit/mpi/<isa>/opt/tombolo/mpi/licenses",
        }],
        "packages": packages,
        "relationships": contained,
    })
}

/// Makes an SPDX identifier, which consists of letters, digits, dots and dashes.
fn id(kind: &str, words: &[&str]) -> String {
    let words: Vec<String> = words
        .iter()
        .map(|word| {
            word.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect()
        })
        .collect();
    format!("SPDXRef-{kind}-{}", words.join("-"))
}

/// Formats seconds since the Unix epoch as ISO 8601 in UTC.
fn utc(seconds: u64) -> String {
    let (days, rest) = ((seconds / 86400) as i64, seconds % 86400);
    // Convert a day count to a civil date, by 400-year eras that begin in March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Collects the licence texts, each printed once below the crates that it applies to.
fn licences(crates: &[&Crate]) -> Result<String, Failure> {
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for it in crates {
        let folder = it.manifest_path.parent().unwrap_or(Path::new("."));
        let name =
            format!("{} {} ({})", it.name, it.version, it.license.as_deref().unwrap_or("see its text"));
        for path in licence_files(folder)? {
            let text = fs::read_to_string(&path).map_err(Failure::file("reading", &path))?;
            texts.entry(text.trim().to_owned()).or_default().insert(name.clone());
        }
    }
    let mut whole =
        String::from("Tombolo contains the crates named here, under the licences that follow each list.\n");
    for (text, names) in texts {
        let names: Vec<String> = names.into_iter().collect();
        whole.push_str(&format!("\n{}\n{}\n\n{text}\n", "=".repeat(80), names.join("\n")));
    }
    Ok(whole)
}

fn licence_files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let is_licence = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        path.is_file()
            && ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"].iter().any(|it| name.starts_with(it))
    };
    let entries = fs::read_dir(folder).map_err(Failure::file("reading", folder))?;
    let mut found: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_licence).collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_iso_8601_writes_them() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(utc(1_795_516_799), "2026-11-24T10:39:59Z");
    }

    #[test]
    fn hashes_come_from_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0\"\nchecksum = \"0f\"\n\n\
                    [[package]]\nname = \"own\"\nversion = \"0.1.0\"\ndependencies = [\n \"a\",\n]\n";
        let expected = BTreeMap::from([(("a".to_owned(), "1.0".to_owned()), "0f".to_owned())]);
        assert_eq!(checksums(lock), expected);
    }

    #[test]
    fn compiler_only_crates_are_not_listed() {
        let text = r#"{
            "packages": [
                {"id": "d", "name": "tombolod", "version": "1", "license": null, "source": null, "manifest_path": "d", "targets": []},
                {"id": "a", "name": "a", "version": "1", "license": "MIT", "source": "r", "manifest_path": "a", "targets": [{"kind": ["lib"]}]},
                {"id": "m", "name": "m", "version": "1", "license": "MIT", "source": "r", "manifest_path": "m", "targets": [{"kind": ["proc-macro"]}]},
                {"id": "b", "name": "b", "version": "1", "license": "MIT", "source": "r", "manifest_path": "b", "targets": [{"kind": ["lib"]}]}
            ],
            "resolve": {"nodes": [
                {"id": "d", "deps": [
                    {"pkg": "a", "dep_kinds": [{"kind": null}]},
                    {"pkg": "m", "dep_kinds": [{"kind": null}]},
                    {"pkg": "b", "dep_kinds": [{"kind": "build"}, {"kind": "dev"}]}
                ]},
                {"id": "a", "deps": []}, {"id": "m", "deps": []}, {"id": "b", "deps": []}
            ]}
        }"#;
        let metadata: Metadata = serde_json::from_str(text).expect("it is metadata");
        let names: Vec<&str> = linked_crates(&metadata).into_iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["a", "tombolod"]);
    }
}
