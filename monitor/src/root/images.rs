//! Reads and checks images that clients pass as files, outside the root's loop.
//!
//! A file can be long, or on a slow or unresponsive disk, and checking it requires hashing all of it: too
//! long to delay notifications of dead peers. So a thread does it, in the order of arrival. An image that is
//! already known, compared byte by byte, is not stored a second time, however many domains run it.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use tombolo_machine::image::{Image, MAX_IMAGE_BYTES};
use tombolo_platform::OsError;
use tombolo_platform::event::{drain, eventfd, signal};

/// Maximum total size of images cached in case they are passed again.
const MAX_KNOWN_BYTES: usize = 64 << 20;

/// Maximum number of cached images.
const MAX_KNOWN: usize = 16;

/// Number of bytes compared at a time.
const PIECE_BYTES: usize = 256 * 1024;

/// Maximum number of files queued for reading. A client that passes one more is not read until there is room.
const MAX_WAITING: usize = 64;

/// An image, or the reason why it is invalid.
pub(super) type Outcome = Result<Image, String>;

/// Reads images on a separate thread. `T` is the purpose of an image.
pub(super) struct ImageReader<T> {
    files: Sender<(T, OwnedFd)>,
    images: Receiver<(T, Outcome)>,
    /// Counts the entries of `images`.
    rung: Arc<OwnedFd>,
    /// Number of files queued minus images returned.
    waiting: usize,
}

impl<T: Send + 'static> ImageReader<T> {
    /// Starts the thread, which ends when this is dropped.
    ///
    /// # Errors
    /// Out of descriptors, out of threads.
    pub(super) fn start() -> Result<Self, OsError> {
        let rung = Arc::new(eventfd()?);
        let ringer = Arc::clone(&rung);
        let (files, to_read) = channel::<(T, OwnedFd)>();
        let (done, images) = channel();
        let read_all = move || {
            let mut known = Known::default();
            for (purpose, file) in to_read {
                if done.send((purpose, known.read(&File::from(file)))).is_err() {
                    return;
                }
                let _ = signal(&*ringer);
            }
        };
        std::thread::Builder::new()
            .name("images".into())
            .spawn(read_all)
            .map_err(|error| OsError::from_io("read images", &error))?;
        Ok(ImageReader { files, images, rung, waiting: 0 })
    }

    /// Queues a file for reading.
    pub(super) fn read(&mut self, purpose: T, file: OwnedFd) {
        // The thread does not end before this does.
        if self.files.send((purpose, file)).is_ok() {
            self.waiting += 1;
        }
    }

    /// Returns whether the queue is full.
    pub(super) fn is_full(&self) -> bool {
        self.waiting >= MAX_WAITING
    }

    /// Returns the next result.
    pub(super) fn next(&mut self) -> Option<(T, Outcome)> {
        let read = self.images.try_recv().ok()?;
        self.waiting -= 1;
        Some(read)
    }

    /// Clears the doorbell; the next reader checks the queue first.
    pub(super) fn hush(&self) {
        drain(&*self.rung);
    }

    /// Returns a descriptor that is readable when there are results.
    pub(super) fn ready_fd(&self) -> BorrowedFd<'_> {
        self.rung.as_fd()
    }
}

/// Images that were read before, in order of least recent use.
#[derive(Default)]
struct Known(VecDeque<KnownImage>);

struct KnownImage {
    image: Image,
    /// Whether it was a bare executable, which is only a part of the image.
    bare: bool,
}

impl KnownImage {
    /// Returns the content of the file that it was read from.
    fn content(&self) -> &[u8] {
        match self.image.programs().next() {
            Some(program) if self.bare => program.bytes,
            _ => self.image.as_bytes(),
        }
    }
}

impl Known {
    fn read(&mut self, file: &File) -> Outcome {
        let length_bytes = length_of(file)?;
        let same = |known: &KnownImage| {
            let content = known.content();
            content.len() == length_bytes && holds(file, content)
        };
        if let Some(index) = self.0.iter().position(same)
            && let Some(known) = self.0.remove(index)
        {
            let image = known.image.clone();
            self.0.push_back(known);
            return Ok(image);
        }
        let bytes = read_whole(file, length_bytes).map_err(|error| error.to_string())?;
        let bare = tombolo_machine::image::elf::is_elf(&bytes);
        let image = Image::from_bytes("the image", bytes).map_err(|error| error.to_string())?;
        self.0.push_back(KnownImage { image: image.clone(), bare });
        self.forget_excess();
        Ok(image)
    }

    fn forget_excess(&mut self) {
        let taken = |known: &VecDeque<KnownImage>| -> usize {
            known.iter().map(|known| known.image.as_bytes().len()).sum()
        };
        while self.0.len() > MAX_KNOWN || taken(&self.0) > MAX_KNOWN_BYTES {
            self.0.pop_front();
        }
    }
}

/// Returns the length of a file from a client. Refuses other types: an endless pipe could never be read.
fn length_of(file: &File) -> Result<usize, String> {
    let kind = file.metadata().map_err(|error| error.to_string())?;
    if !kind.is_file() || kind.len() > MAX_IMAGE_BYTES {
        return Err(format!("not a regular file of at most {} MiB", MAX_IMAGE_BYTES >> 20));
    }
    usize::try_from(kind.len()).map_err(|error| error.to_string())
}

/// Returns whether a file begins with these bytes.
fn holds(file: &File, content: &[u8]) -> bool {
    let mut piece = vec![0; PIECE_BYTES.min(content.len())];
    content.chunks(PIECE_BYTES).enumerate().all(|(index, expected)| {
        let piece = &mut piece[..expected.len()];
        file.read_exact_at(piece, (index * PIECE_BYTES) as u64).is_ok() && piece == expected
    })
}

/// Reads a file up to the stated length, or less if it has been truncated.
fn read_whole(file: &File, length_bytes: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length_bytes).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    bytes.resize(length_bytes, 0);
    let mut filled = 0;
    while filled < length_bytes {
        match file.read_at(&mut bytes[filled..], filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::Duration;
    use tombolo_machine::image::ImageBuilder;
    use tombolo_platform::Deadline;
    use tombolo_platform::event::{Interest, poll};

    /// Returns an executable for x86-64 without loaded segments, longer than a piece.
    fn program() -> Vec<u8> {
        let mut bytes = vec![0; PIECE_BYTES + 100];
        bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
        // Type, machine, version, where the program headers are, how long the header is, one of them, how
        // many, PT_LOAD.
        for (offset, value) in [(16, 2), (18, 62), (20, 1), (32, 64), (52, 64), (54, 56), (56, 1), (64, 1)] {
            bytes[offset] = value;
        }
        bytes
    }

    fn packed(name: &str) -> Image {
        ImageBuilder::new(name).with_program(program()).unwrap().finish().unwrap()
    }

    fn file_of(bytes: &[u8]) -> File {
        let memory = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut file = File::from(memory);
        file.write_all(bytes).unwrap();
        file
    }

    /// Returns the address of an image's bytes: equal for two that share them.
    fn place(image: &Image) -> *const u8 {
        image.as_bytes().as_ptr()
    }

    #[test]
    fn what_is_passed_again_is_not_kept_again() {
        let mut known = Known::default();
        let first = known.read(&file_of(&program())).unwrap();
        let again = known.read(&file_of(&program())).unwrap();
        assert_eq!((place(&first), first.id()), (place(&again), again.id()));
        // A packed image has a name, and a bare one does not: they are not equal.
        let image = packed("named");
        let first = known.read(&file_of(image.as_bytes())).unwrap();
        let again = known.read(&file_of(image.as_bytes())).unwrap();
        assert_eq!((place(&first), first.name()), (place(&again), "named"));
        assert_eq!(known.0.len(), 2);
    }

    #[test]
    fn one_byte_makes_another_file() {
        let mut known = Known::default();
        let image = packed("same");
        let mut bytes = image.as_bytes().to_vec();
        known.read(&file_of(&bytes)).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        // It is checked like any other.
        known.read(&file_of(&bytes)).unwrap_err();
        known.read(&file_of(&bytes[..bytes.len() - 1])).unwrap_err();
        assert_eq!(known.0.len(), 1);
    }

    #[test]
    fn what_is_known_is_bounded() {
        let mut known = Known::default();
        for number in 0..MAX_KNOWN + 3 {
            known.0.push_back(KnownImage { image: packed(&format!("{number}")), bare: false });
            known.forget_excess();
            assert!(known.0.len() <= MAX_KNOWN);
        }
        let taken: usize = known.0.iter().map(|known| known.image.as_bytes().len()).sum();
        assert!(!known.0.is_empty() && taken <= MAX_KNOWN_BYTES);
        assert_eq!(known.0.back().unwrap().image.name(), format!("{}", MAX_KNOWN + 2));
    }

    #[test]
    fn files_are_read_in_order_and_what_is_no_image_is_refused() {
        let mut reader = ImageReader::start().unwrap();
        let (pipe, _writer) = rustix::pipe::pipe().unwrap();
        reader.read(1, pipe);
        reader.read(2, file_of(b"no image").into());
        reader.read(3, file_of(&program()).into());
        let mut read = Vec::new();
        while read.len() < 3 {
            let soon = Deadline::after(Duration::from_secs(60));
            assert!(poll(&[(reader.ready_fd(), Interest::Read)], Some(soon)).unwrap()[0].any());
            reader.hush();
            read.extend(std::iter::from_fn(|| reader.next()));
        }
        assert_eq!(read.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(read[0].1.as_ref().unwrap_err().contains("not a regular file"));
        assert!(read[1].1.is_err() && read[2].1.is_ok());
    }

    #[test]
    fn so_many_files_wait_and_no_more() {
        let mut reader = ImageReader::start().unwrap();
        for number in 0..MAX_WAITING {
            assert!(!reader.is_full(), "{number}");
            reader.read(number, file_of(b"no image").into());
        }
        assert!(reader.is_full());
        let soon = Deadline::after(Duration::from_secs(60));
        assert!(poll(&[(reader.ready_fd(), Interest::Read)], Some(soon)).unwrap()[0].any());
        assert_eq!(reader.next().unwrap().0, 0);
        assert!(!reader.is_full());
    }
}
