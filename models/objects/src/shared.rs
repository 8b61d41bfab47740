//! Shared objects and guards for access.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use tombolo_sharing::{Access, Caching, Consistency, Fault, Header, Layout, Object, Rank};

use crate::error::ObjectError;
use crate::job::Job;
use crate::plain::{Plain, shape, shape_of_name};

/// Location and id of a shared object or mapping, valid on all ranks: plain data that can be broadcast,
/// passed to a call, or stored in another object.
#[derive(Debug)]
pub struct Pointer<T: ?Sized> {
    pub(crate) at_bytes: u64,
    pub(crate) id: u64,
    of: PhantomData<fn() -> Box<T>>,
}

impl<T: ?Sized> Pointer<T> {
    pub(crate) fn new(at_bytes: usize, id: u64) -> Self {
        Pointer { at_bytes: at_bytes as u64, id, of: PhantomData }
    }

    /// Opens this rank's handle of an object whose data has the hash `shape`.
    pub(crate) fn open(self, job: &Job, shape: u64) -> Result<Object<Consistency>, ObjectError> {
        // An offset beyond this processor's address space is out of bounds.
        let at_bytes = usize::try_from(self.at_bytes).unwrap_or(usize::MAX);
        let (header, layout) = Header::read(&*job.memory, at_bytes, job.size() as usize, self.id, shape)?;
        Ok(Object::new(layout, Rank(job.rank() as u8), header.consistency, header.caching))
    }
}

impl<T: ?Sized> Clone for Pointer<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Pointer<T> {}

impl<T: ?Sized> PartialEq for Pointer<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at_bytes, self.id) == (other.at_bytes, other.id)
    }
}

impl<T: ?Sized + 'static> Plain for Pointer<T> {
    const BYTES: usize = 16;
    const SHAPE: u64 = shape_of_name(b"pointer");

    fn encode(&self, bytes: &mut [u8]) {
        (self.at_bytes, self.id).encode(bytes);
    }

    fn decode(bytes: &[u8]) -> Self {
        let (at_bytes, id) = Plain::decode(bytes);
        Pointer { at_bytes, id, of: PhantomData }
    }
}

/// This rank's handle of a shared object with a value of `T`. The value is accessible only through guards:
///
/// ```compile_fail,E0368
/// # fn example(job: &tombolo_objects::Job) -> Result<(), tombolo_objects::ObjectError> {
/// let mut total = job.create(&0_u64, tombolo_objects::Consistency::Timestamp)?;
/// *total += 1;
/// # Ok(()) }
/// ```
///
/// A reader cannot write:
///
/// ```compile_fail,E0594
/// # fn example(job: &tombolo_objects::Job) -> Result<(), tombolo_objects::ObjectError> {
/// let mut total = job.create(&0_u64, tombolo_objects::Consistency::Timestamp)?;
/// *total.read(job)? += 1;
/// # Ok(()) }
/// ```
///
/// A handle has one guard at a time:
///
/// ```compile_fail,E0502
/// # fn example(job: &tombolo_objects::Job) -> Result<(), tombolo_objects::ObjectError> {
/// let mut total = job.create(&0_u64, tombolo_objects::Consistency::Timestamp)?;
/// let reader = total.read(job)?;
/// *total.write(job)? = *reader + 1;
/// # Ok(()) }
/// ```
///
/// This compiles:
///
/// ```no_run
/// # fn example(job: &tombolo_objects::Job) -> Result<(), tombolo_objects::ObjectError> {
/// let mut total = job.create(&0_u64, tombolo_objects::Consistency::Timestamp)?;
/// *total.write(job)? += 1;
/// println!("{}", *total.read(job)?);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Shared<T> {
    pub(crate) object: Object<Consistency>,
    pointer: Pointer<T>,
}

impl Job {
    /// Creates an object with `data`, and opens it.
    pub(crate) fn create_object<T: ?Sized>(
        &self,
        data: &[u8],
        shape: u64,
        consistency: Consistency,
        caching: Caching,
    ) -> Result<(Object<Consistency>, Pointer<T>), ObjectError> {
        let ranks = self.size() as usize;
        let length_bytes = Layout::new(0, ranks, data.len())?.total_bytes();
        let (at_bytes, id) = self.allocate(length_bytes)?;
        let header = Header { id, shape, consistency, caching };
        header.create(&*self.memory, &Layout::new(at_bytes, ranks, data.len())?, data)?;
        let pointer = Pointer::new(at_bytes, id);
        Ok((pointer.open(self, shape)?, pointer))
    }

    /// Creates a shared object with a value. Other ranks [open](Self::open) it by its pointer.
    ///
    /// # Errors
    /// [`ObjectError::NoSpace`].
    pub fn create<T: Plain>(&self, value: &T, consistency: Consistency) -> Result<Shared<T>, ObjectError> {
        let (object, pointer) =
            self.create_object(&value.to_bytes(), T::SHAPE, consistency, Caching::Cached)?;
        Ok(Shared { object, pointer })
    }

    /// Opens an object that a rank created.
    ///
    /// # Errors
    /// [`ObjectError::Fault`] if there is no such object.
    pub fn open<T: Plain>(&self, pointer: Pointer<T>) -> Result<Shared<T>, ObjectError> {
        Ok(Shared { object: pointer.open(self, T::SHAPE)?, pointer })
    }

    /// Creates an object with rank `root`'s value and opens it on all ranks: a collective.
    ///
    /// # Errors
    /// As [`create`](Self::create) and [`broadcast`](Self::broadcast).
    pub fn share<T: Plain>(
        &mut self,
        root: u32,
        value: &T,
        consistency: Consistency,
    ) -> Result<Shared<T>, ObjectError> {
        if self.rank() == root {
            let shared = self.create(value, consistency)?;
            self.broadcast(root, shared.pointer)?;
            return Ok(shared);
        }
        let pointer = self.broadcast(root, Pointer::new(0, 0))?;
        self.open(pointer)
    }
}

impl<T: Plain> Shared<T> {
    /// Returns the pointer with which other ranks open it.
    #[must_use]
    pub fn pointer(&self) -> Pointer<T> {
        self.pointer
    }

    /// Acquires the object for shared reading, within the timeout of the job.
    ///
    /// # Errors
    /// As [`read_within`](Self::read_within).
    pub fn read<'a>(&'a mut self, job: &'a Job) -> Result<ReadGuard<'a, T>, ObjectError> {
        self.read_within(job, job.timeout())
    }

    /// Acquires the object for shared reading.
    ///
    /// # Errors
    /// [`ObjectError::TimedOut`], [`ObjectError::WriterDied`], [`ObjectError::AlreadyHeld`],
    /// [`ObjectError::Fault`].
    pub fn read_within<'a>(
        &'a mut self,
        job: &'a Job,
        timeout: Duration,
    ) -> Result<ReadGuard<'a, T>, ObjectError> {
        let held = ObjectGuard::acquire(&mut self.object, job, Access::Read, timeout)?;
        Ok(ReadGuard { value: value(&held)?, _held: held })
    }

    /// Acquires the object for exclusive writing, within the timeout of the job.
    ///
    /// # Errors
    /// As [`read_within`](Self::read_within).
    pub fn write<'a>(&'a mut self, job: &'a Job) -> Result<WriteGuard<'a, T>, ObjectError> {
        self.write_within(job, job.timeout())
    }

    /// Acquires the object for exclusive writing.
    ///
    /// # Errors
    /// As [`read_within`](Self::read_within).
    pub fn write_within<'a>(
        &'a mut self,
        job: &'a Job,
        timeout: Duration,
    ) -> Result<WriteGuard<'a, T>, ObjectError> {
        self.write_as(job, Access::Write, timeout)
    }

    /// Acquires the object for writing after a writer died, within the timeout of the job. The value may be a
    /// mix of old and new bytes; the value that this guard leaves is valid for all ranks.
    ///
    /// # Errors
    /// As [`read_within`](Self::read_within), except [`ObjectError::WriterDied`].
    pub fn repair<'a>(&'a mut self, job: &'a Job) -> Result<WriteGuard<'a, T>, ObjectError> {
        self.write_as(job, Access::Repair, job.timeout())
    }

    fn write_as<'a>(
        &'a mut self,
        job: &'a Job,
        access: Access,
        timeout: Duration,
    ) -> Result<WriteGuard<'a, T>, ObjectError> {
        let held = ObjectGuard::acquire(&mut self.object, job, access, timeout)?;
        Ok(WriteGuard { value: value(&held)?, is_modified: false, held })
    }

    /// Destroys the object for all ranks. Its memory is not reused while the job runs.
    ///
    /// # Errors
    /// As [`write`](Self::write), for example if another rank holds it.
    pub fn destroy(mut self, job: &Job) -> Result<(), ObjectError> {
        job.acquire(&mut self.object, Access::Write, job.timeout())?;
        let destroyed = self.object.destroy(&*job.memory);
        job.abandon(&mut self.object);
        Ok(destroyed?)
    }
}

/// An acquired object; dropping it releases the object.
#[derive(Debug)]
pub(crate) struct ObjectGuard<'a> {
    pub(crate) object: &'a mut Object<Consistency>,
    pub(crate) job: &'a Job,
}

impl<'a> ObjectGuard<'a> {
    pub(crate) fn acquire(
        object: &'a mut Object<Consistency>,
        job: &'a Job,
        access: Access,
        timeout: Duration,
    ) -> Result<Self, ObjectError> {
        job.acquire(object, access, timeout)?;
        Ok(ObjectGuard { object, job })
    }
}

impl Drop for ObjectGuard<'_> {
    fn drop(&mut self) {
        // After a panic changes are not published, unless they were written through.
        if std::thread::panicking() && self.object.caching() == Caching::Cached {
            self.job.abandon(self.object);
        } else {
            self.job.release(self.object);
        }
    }
}

/// Decodes the value of an acquired object.
fn value<T: Plain>(held: &ObjectGuard<'_>) -> Result<T, ObjectError> {
    // The length comes from the header, which another rank wrote.
    let bytes = held.object.bytes().filter(|bytes| bytes.len() == T::BYTES);
    Ok(T::decode(bytes.ok_or(Fault::BadHeader { at_bytes: held.object.layout().at_bytes() })?))
}

/// Shared read guard of an object; dropping it releases the object.
#[derive(Debug)]
pub struct ReadGuard<'a, T: Plain> {
    value: T,
    _held: ObjectGuard<'a>,
}

impl<T: Plain> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Exclusive write guard of an object; dropping it publishes the changes.
#[derive(Debug)]
pub struct WriteGuard<'a, T: Plain> {
    value: T,
    is_modified: bool,
    held: ObjectGuard<'a>,
}

impl<T: Plain> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Plain> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.is_modified = true;
        &mut self.value
    }
}

impl<T: Plain> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        if self.is_modified && !std::thread::panicking() {
            // Cannot fail: the lengths match, and the object is held for writing. Dropping `held` releases
            // it.
            let _ = self.held.object.write(&*self.held.job.memory, 0, &self.value.to_bytes());
        }
    }
}

/// Returns the hash of a mapping with values of `T`.
pub(crate) const fn mapping_shape<T: Plain>() -> u64 {
    shape(shape_of_name(b"mapping"), T::SHAPE)
}
