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
const MAX_CACHED_BYTES: usize = 64 << 20;

/// Maximum number of cached images.
const MAX_CACHED: usize = 16;

/// Number of bytes compared at a time.
const PIECE_BYTES: usize = 256 * 1024;

/// Maximum number of files queued for reading. A client that passes one more is not read until there is room.
const MAX_PENDING: usize = 64;

/// An image, or the reason why it is invalid.
pub(super) type ImageResult = Result<Image, String>;

/// Reads images on a separate thread. `T` is the purpose of an image.
pub(super) struct ImageReader<T> {
    files: Sender<(T, OwnedFd)>,
    images: Receiver<(T, ImageResult)>,
    /// Counts the entries of `images`.
    ready: Arc<OwnedFd>,
    /// Number of files queued minus images returned.
    pending: usize,
}

impl<T: Send + 'static> ImageReader<T> {
    /// Starts the thread, which ends when this is dropped.
    ///
    /// # Errors
    /// Out of descriptors, out of threads.
    pub(super) fn start() -> Result<Self, OsError> {
        let ready = Arc::new(eventfd()?);
        let ringer = Arc::clone(&ready);
        let (files, requests) = channel::<(T, OwnedFd)>();
        let (done, images) = channel();
        let read_all = move || {
            let mut cache = ImageCache::default();
            for (purpose, file) in requests {
                if done.send((purpose, cache.read(&File::from(file)))).is_err() {
                    return;
                }
                let _ = signal(&*ringer);
            }
        };
        std::thread::Builder::new()
            .name("images".into())
            .spawn(read_all)
            .map_err(|error| OsError::from_io("read images", &error))?;
        Ok(ImageReader { files, images, ready, pending: 0 })
    }

    /// Queues a file for reading.
    pub(super) fn read(&mut self, purpose: T, file: OwnedFd) {
        // The thread does not end before this does.
        if self.files.send((purpose, file)).is_ok() {
            self.pending += 1;
        }
    }

    /// Returns whether the queue is full.
    pub(super) fn is_full(&self) -> bool {
        self.pending >= MAX_PENDING
    }

    /// Returns the next result.
    pub(super) fn next(&mut self) -> Option<(T, ImageResult)> {
        let read = self.images.try_recv().ok()?;
        self.pending -= 1;
        Some(read)
    }

    /// Clears the readiness; the next reader checks the queue first.
    pub(super) fn clear_ready(&self) {
        drain(&*self.ready);
    }

    /// Returns a descriptor that is readable when there are results.
    pub(super) fn ready_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

/// Images that were read before, in order of least recent use.
#[derive(Default)]
struct ImageCache(VecDeque<CachedImage>);

struct CachedImage {
    image: Image,
    /// Whether it was a bare executable, which is only a part of the image.
    bare: bool,
}

impl CachedImage {
    /// Returns the content of the file that it was read from.
    fn content(&self) -> &[u8] {
        match self.image.programs().next() {
            Some(program) if self.bare => program.bytes,
            _ => self.image.as_bytes(),
        }
    }
}

impl ImageCache {
    fn read(&mut self, file: &File) -> ImageResult {
        let length_bytes = length_of(file)?;
        let same = |known: &CachedImage| {
            let content = known.content();
            content.len() == length_bytes && content_equals(file, content)
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
        self.0.push_back(CachedImage { image: image.clone(), bare });
        self.evict_excess();
        Ok(image)
    }

    fn evict_excess(&mut self) {
        let taken = |known: &VecDeque<CachedImage>| -> usize {
            known.iter().map(|known| known.image.as_bytes().len()).sum()
        };
        while self.0.len() > MAX_CACHED || taken(&self.0) > MAX_CACHED_BYTES {
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
fn content_equals(file: &File, content: &[u8]) -> bool {
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
    fn address_of(image: &Image) -> *const u8 {
        image.as_bytes().as_ptr()
    }

    #[test]
    fn image_passed_again_is_cached_once() {
        let mut cache = ImageCache::default();
        let first = cache.read(&file_of(&program())).unwrap();
        let again = cache.read(&file_of(&program())).unwrap();
        assert_eq!((address_of(&first), first.id()), (address_of(&again), again.id()));
        // A packed image has a name, and a bare one does not: they are not equal.
        let image = packed("named");
        let first = cache.read(&file_of(image.as_bytes())).unwrap();
        let again = cache.read(&file_of(image.as_bytes())).unwrap();
        assert_eq!((address_of(&first), first.name()), (address_of(&again), "named"));
        assert_eq!(cache.0.len(), 2);
    }

    #[test]
    fn one_changed_byte_is_another_image() {
        let mut cache = ImageCache::default();
        let image = packed("same");
        let mut bytes = image.as_bytes().to_vec();
        cache.read(&file_of(&bytes)).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        // It is checked like any other.
        cache.read(&file_of(&bytes)).unwrap_err();
        cache.read(&file_of(&bytes[..bytes.len() - 1])).unwrap_err();
        assert_eq!(cache.0.len(), 1);
    }

    #[test]
    fn image_cache_is_bounded() {
        let mut cache = ImageCache::default();
        for number in 0..MAX_CACHED + 3 {
            cache.0.push_back(CachedImage { image: packed(&format!("{number}")), bare: false });
            cache.evict_excess();
            assert!(cache.0.len() <= MAX_CACHED);
        }
        let taken: usize = cache.0.iter().map(|known| known.image.as_bytes().len()).sum();
        assert!(!cache.0.is_empty() && taken <= MAX_CACHED_BYTES);
        assert_eq!(cache.0.back().unwrap().image.name(), format!("{}", MAX_CACHED + 2));
    }

    #[test]
    fn images_are_read_in_order_and_invalid_ones_refused() {
        let mut reader = ImageReader::start().unwrap();
        let (pipe, _writer) = rustix::pipe::pipe().unwrap();
        reader.read(1, pipe);
        reader.read(2, file_of(b"no image").into());
        reader.read(3, file_of(&program()).into());
        let mut read = Vec::new();
        while read.len() < 3 {
            let soon = Deadline::after(Duration::from_secs(60));
            assert!(poll(&[(reader.ready_fd(), Interest::Read)], Some(soon)).unwrap()[0].any());
            reader.clear_ready();
            read.extend(std::iter::from_fn(|| reader.next()));
        }
        assert_eq!(read.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(read[0].1.as_ref().unwrap_err().contains("not a regular file"));
        assert!(read[1].1.is_err() && read[2].1.is_ok());
    }

    #[test]
    fn pending_image_files_are_limited() {
        let mut reader = ImageReader::start().unwrap();
        for number in 0..MAX_PENDING {
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
