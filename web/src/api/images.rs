//! Images that pages can start.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use axum::extract::State;
use serde::Serialize;
use tombolo::nodes::Target;
use tombolo_machine::Image;

use super::{Answer, Problem, blocking, json};
use crate::server::Site;

/// Maximum number of images of all folders together.
const MAX_IMAGES: usize = 256;

/// File extension of images in folders; a file given explicitly may have any name.
const EXTENSION: &str = "tbi";

/// Image that can be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ImageInfo {
    /// Path as displayed, by which pages refer to the image.
    pub(crate) file: String,
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) targets: Vec<Target>,
    pub(crate) restartable: bool,
    pub(crate) bytes: u64,
}

/// Cached result of reading a file: its modification time and length, and the image, or why it is not one.
type CachedImage = (Option<SystemTime>, u64, Result<ImageInfo, String>);

/// Cache of files that have been read: validating an image reads every byte, so each file is read once until
/// it changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Images {
    read: Arc<Mutex<BTreeMap<PathBuf, CachedImage>>>,
}

impl Images {
    /// Returns the images among these files and folders, and errors for files that look like images but are
    /// not.
    async fn all(&self, paths: &[PathBuf]) -> Result<Vec<Result<ImageInfo, String>>, Problem> {
        let (images, paths) = (self.clone(), paths.to_vec());
        blocking(move || {
            let mut read = images.read.lock().unwrap_or_else(PoisonError::into_inner);
            let files = files(&paths);
            read.retain(|path, _| files.contains(path));
            Ok(files.iter().filter_map(|path| read_cached(&mut read, path)).collect())
        })
        .await
    }

    /// Returns the image that pages refer to as `file`.
    pub(crate) async fn find(&self, paths: &[PathBuf], file: &str) -> Result<ImageInfo, Problem> {
        let mut all = self.all(paths).await?.into_iter().flatten();
        let missing = || Problem::not_found(format!("there is no image '{file}' in the folders of --images"));
        all.find(|found| found.file == file).ok_or_else(missing)
    }
}

/// Expands folders to the files in them. A folder that cannot be read counts as empty.
fn files(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths {
        let Ok(entries) = std::fs::read_dir(path) else {
            files.push(path.clone());
            continue;
        };
        let paths = entries.flatten().map(|entry| entry.path());
        let mut found: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|extension| extension == EXTENSION)).collect();
        found.sort();
        files.extend(found);
    }
    files.dedup();
    files.truncate(MAX_IMAGES);
    files
}

/// Reads a file unless its cached result is current; `None` if there is no such file.
fn read_cached(read: &mut BTreeMap<PathBuf, CachedImage>, path: &Path) -> Option<Result<ImageInfo, String>> {
    let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let (time, length) = (metadata.modified().ok(), metadata.len());
    if let Some((before, length_before, found)) = read.get(path)
        && (*before, *length_before) == (time, length)
    {
        return Some(found.clone());
    }
    let found = Image::open(path).map_err(|error| error.to_string()).map(|image| ImageInfo {
        file: path.strip_prefix(".").unwrap_or(path).display().to_string(),
        path: path.to_owned(),
        name: image.name().to_owned(),
        targets: image.targets(),
        restartable: image.is_restartable(),
        bytes: length,
    });
    read.insert(path.to_owned(), (time, length, found.clone()));
    Some(found)
}

#[derive(Serialize)]
struct Listing {
    images: Vec<Listed>,
    /// Error messages of files that are not images.
    unusable: Vec<String>,
}

#[derive(Serialize)]
struct Listed {
    file: String,
    name: String,
    targets: Vec<&'static str>,
    restartable: bool,
    bytes: u64,
}

/// `GET /api/images`
pub(super) async fn list(State(site): State<Arc<Site>>) -> Answer {
    let (mut images, mut unusable) = (Vec::new(), Vec::new());
    for found in site.images.all(&site.options.images).await? {
        match found {
            Ok(ImageInfo { file, name, targets, restartable, bytes, .. }) => {
                let targets = targets.into_iter().map(Target::name).collect();
                images.push(Listed { file, name, targets, restartable, bytes });
            }
            Err(why) => unusable.push(why),
        }
    }
    Ok(json(&Listing { images, unusable }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_only_when_it_changes() {
        let folder = std::env::temp_dir().join(format!("tombolo-images-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("sh.tbi");
        std::fs::copy("/bin/sh", &path).unwrap();
        std::fs::write(folder.join("notes.txt"), "no image").unwrap();
        std::fs::write(folder.join("broken.tbi"), "no image").unwrap();
        let all = files(&[folder.clone(), "/bin/sh".into(), folder.join("missing")]);
        assert_eq!(all.len(), 4, "{all:?}");
        let mut read = BTreeMap::new();
        let found: Vec<_> = all.iter().map(|path| read_cached(&mut read, path)).collect();
        assert!(matches!(&found[0], Some(Err(why)) if why.contains("broken.tbi")), "{found:?}");
        assert!(matches!(&found[1], Some(Ok(image)) if image.name == "sh" && image.targets.len() == 1));
        assert!(matches!(&found[2], Some(Ok(image)) if image.file == "/bin/sh"));
        assert!(found[3].is_none());
        // The cached result is returned until the file changes.
        read.get_mut(&path).unwrap().2 = Err("remembered".into());
        assert_eq!(read_cached(&mut read, &path), Some(Err("remembered".into())));
        std::fs::write(&path, "shorter").unwrap();
        assert!(matches!(read_cached(&mut read, &path), Some(Err(why)) if why != "remembered"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
