//! Images given on a command line.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tombolo_machine::image::ImageError;
use tombolo_machine::{Image, Kit};

use crate::failure::Failure;

/// Opens an image. A missing one gets a hint.
///
/// # Errors
/// [`ImageError`], as a mistake of the user.
pub fn open_image(path: &Path) -> Result<Image, Failure> {
    Image::open(path).map_err(|error| match &error {
        ImageError::Unreadable { source, .. } if source.kind() == ErrorKind::NotFound => {
            Failure::from(error).advised("`tombolo build` makes an image of a program's source")
        }
        _ => error.into(),
    })
}

/// Returns the path of the image of `--image`, which must be one, or else of an image of the kit.
///
/// # Errors
/// That of [`open_image`], or there is no kit.
pub fn chosen_image(given: Option<&Path>, of_kit: &str) -> Result<PathBuf, Failure> {
    match given {
        Some(image) => open_image(image).map(|_| image.to_owned()),
        None => Ok(Kit::locate()?.image(of_kit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_cannot_be_read_is_a_mistake_of_the_user() {
        let nowhere = Path::new("/nonexistent/x.tbi");
        let missing = open_image(nowhere).unwrap_err();
        assert_eq!(missing.status(), 2);
        assert!(missing.to_string().contains("/nonexistent/x.tbi"), "{missing}");
        assert!(missing.hint().is_some_and(|hint| hint.contains("tombolo build")));
        assert_eq!(open_image(Path::new("/etc")).unwrap_err().status(), 2);
        assert_eq!(chosen_image(Some(nowhere), "bench").unwrap_err().status(), 2);
        assert_eq!(chosen_image(Some(Path::new("/bin/sh")), "bench").unwrap(), Path::new("/bin/sh"));
    }
}
