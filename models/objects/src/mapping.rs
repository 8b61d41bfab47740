//! Index spaces and mappings from their indices to values.

use std::ops::Range;
use std::time::Duration;

use tombolo_base::OutOfRange;
use tombolo_sharing::{Access, Caching, Consistency, Fault, Object};

use crate::error::ObjectError;
use crate::job::Job;
use crate::plain::Plain;
use crate::shared::{ObjectGuard, Pointer, Shared, mapping_shape};

/// An index space: the indices from 0 to a bound that can grow, TACO-MESH's `RangeSpace`. Mappings of the
/// space have room for its full capacity, so no mapping has to be moved when it grows.
#[derive(Debug)]
pub struct Space {
    /// Number of indices, and capacity.
    bounds: Shared<(u64, u64)>,
    capacity: u64,
}

/// Pointer with which other ranks open an index space.
pub type SpacePointer = Pointer<(u64, u64)>;

impl Job {
    /// Creates an index space with `count` indices, which can grow to `capacity`.
    ///
    /// # Errors
    /// [`ObjectError::SpaceFull`] if `count` exceeds `capacity`; [`ObjectError::NoSpace`].
    pub fn create_space(
        &self,
        count: u64,
        capacity: u64,
        consistency: Consistency,
    ) -> Result<Space, ObjectError> {
        if count > capacity {
            return Err(ObjectError::SpaceFull { capacity });
        }
        Ok(Space { bounds: self.create(&(count, capacity), consistency)?, capacity })
    }

    /// Opens an index space that a rank created.
    ///
    /// # Errors
    /// As [`open`](Self::open), and those of a read guard.
    pub fn open_space(&self, pointer: SpacePointer) -> Result<Space, ObjectError> {
        let mut bounds = self.open(pointer)?;
        let capacity = bounds.read(self)?.1;
        Ok(Space { bounds, capacity })
    }
}

impl Space {
    /// Returns the pointer with which other ranks open it.
    #[must_use]
    pub fn pointer(&self) -> SpacePointer {
        self.bounds.pointer()
    }

    /// Returns the maximum number of indices.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the current indices.
    ///
    /// # Errors
    /// Those of a read guard.
    pub fn indexes(&mut self, job: &Job) -> Result<Range<u64>, ObjectError> {
        Ok(0..self.bounds.read(job)?.0)
    }

    /// Adds indices, and returns them. In mappings they have the initial values given by the creator.
    ///
    /// # Errors
    /// [`ObjectError::SpaceFull`], or those of a write guard.
    pub fn grow(&mut self, job: &Job, by: u64) -> Result<Range<u64>, ObjectError> {
        let mut bounds = self.bounds.write(job)?;
        let (count, capacity) = *bounds;
        let more = count.checked_add(by).filter(|more| *more <= capacity);
        let more = more.ok_or(ObjectError::SpaceFull { capacity })?;
        bounds.0 = more;
        Ok(count..more)
    }
}

/// This rank's handle of a mapping: a value of `T` for each index of a [`Space`]. Guards access values one by
/// one, in one of three caching modes, which the creator chooses to suit the access pattern:
///
/// - [`Caching::Cached`]: each rank has a copy, and an acquisition fetches the 4 KiB chunks that were written
///   since the last one. For data that is read often and written rarely.
/// - [`Caching::WriteThrough`]: the same, but a write goes to shared memory at once, so a release has nothing
///   to write back. For few writes to large data.
/// - [`Caching::Uncached`]: no copy; each access goes to shared memory. For data that changes between any two
///   accesses.
///
/// A program that chooses a mode per mapping implements what TACO-MESH calls *Mix*.
#[derive(Debug)]
pub struct Mapping<T> {
    pub(crate) object: Object<Consistency>,
    pointer: Pointer<[T]>,
}

impl Job {
    /// Creates a mapping of a space, with initial values for its full capacity.
    ///
    /// # Errors
    /// [`ObjectError::NoSpace`].
    pub fn create_mapping<T: Plain>(
        &self,
        space: &Space,
        mut initial: impl FnMut(u64) -> T,
        consistency: Consistency,
        caching: Caching,
    ) -> Result<Mapping<T>, ObjectError> {
        let bytes = usize::try_from(space.capacity).ok().and_then(|count| count.checked_mul(T::BYTES));
        // A length beyond the address space counts as no room as well.
        let bytes = bytes.filter(|bytes| *bytes <= self.memory.len_bytes()).ok_or_else(|| {
            let length_bytes = self.memory.len_bytes();
            tombolo_onesided::NoSpace { wanted_bytes: usize::MAX, longest_bytes: length_bytes, length_bytes }
        })?;
        let mut data = vec![0; bytes];
        for (index, bytes) in (0..).zip(data.chunks_exact_mut(T::BYTES.max(1))) {
            initial(index).encode(bytes);
        }
        let (object, pointer) = self.create_object(&data, mapping_shape::<T>(), consistency, caching)?;
        Ok(Mapping { object, pointer })
    }

    /// Opens a mapping that a rank created.
    ///
    /// # Errors
    /// [`ObjectError::Fault`] if there is no such mapping.
    pub fn open_mapping<T: Plain>(&self, pointer: Pointer<[T]>) -> Result<Mapping<T>, ObjectError> {
        Ok(Mapping { object: pointer.open(self, mapping_shape::<T>())?, pointer })
    }
}

impl<T: Plain> Mapping<T> {
    /// Returns the pointer with which other ranks open it.
    #[must_use]
    pub fn pointer(&self) -> Pointer<[T]> {
        self.pointer
    }

    /// Acquires the mapping for shared reading, within the timeout of the job.
    ///
    /// # Errors
    /// As [`Shared::read_within`].
    pub fn read<'a>(&'a mut self, job: &'a Job) -> Result<MappingReader<'a, T>, ObjectError> {
        self.read_within(job, job.timeout())
    }

    /// Acquires the mapping for shared reading.
    ///
    /// # Errors
    /// As [`Shared::read_within`].
    pub fn read_within<'a>(
        &'a mut self,
        job: &'a Job,
        timeout: Duration,
    ) -> Result<MappingReader<'a, T>, ObjectError> {
        let held = ObjectGuard::acquire(&mut self.object, job, Access::Read, timeout)?;
        Ok(MappingReader { held, of: std::marker::PhantomData })
    }

    /// Acquires the mapping for exclusive writing, within the timeout of the job.
    ///
    /// # Errors
    /// As [`Shared::read_within`].
    pub fn write<'a>(&'a mut self, job: &'a Job) -> Result<MappingWriter<'a, T>, ObjectError> {
        self.write_within(job, job.timeout())
    }

    /// Acquires the mapping for exclusive writing.
    ///
    /// # Errors
    /// As [`Shared::read_within`].
    pub fn write_within<'a>(
        &'a mut self,
        job: &'a Job,
        timeout: Duration,
    ) -> Result<MappingWriter<'a, T>, ObjectError> {
        self.write_as(job, Access::Write, timeout)
    }

    /// Acquires the mapping for writing after a writer died, like [`Shared::repair`].
    ///
    /// # Errors
    /// As [`Shared::repair`].
    pub fn repair<'a>(&'a mut self, job: &'a Job) -> Result<MappingWriter<'a, T>, ObjectError> {
        self.write_as(job, Access::Repair, job.timeout())
    }

    fn write_as<'a>(
        &'a mut self,
        job: &'a Job,
        access: Access,
        timeout: Duration,
    ) -> Result<MappingWriter<'a, T>, ObjectError> {
        let held = ObjectGuard::acquire(&mut self.object, job, access, timeout)?;
        Ok(MappingWriter { reader: MappingReader { held, of: std::marker::PhantomData } })
    }
}

/// Read guard of a mapping; dropping it releases the mapping.
#[derive(Debug)]
pub struct MappingReader<'a, T> {
    held: ObjectGuard<'a>,
    of: std::marker::PhantomData<T>,
}

impl<T: Plain> MappingReader<'_, T> {
    /// Returns the number of values: the capacity of the space.
    #[must_use]
    pub fn len(&self) -> u64 {
        (self.held.object.layout().length_bytes() / T::BYTES.max(1)) as u64
    }

    /// Returns whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of an index; `None` beyond the last.
    #[inline]
    #[must_use]
    pub fn get(&self, index: u64) -> Option<T> {
        let start = usize::try_from(index).ok()?.checked_mul(T::BYTES)?;
        if let Some(bytes) = self.held.object.bytes() {
            return Some(T::decode(bytes.get(start..start.checked_add(T::BYTES)?)?));
        }
        let mut small = [0; 32];
        let mut large = Vec::new();
        let room = match small.get_mut(..T::BYTES) {
            Some(room) => room,
            None => {
                large.resize(T::BYTES, 0);
                &mut large[..]
            }
        };
        self.held.object.read(&*self.held.job.memory, start, room).ok()?;
        Some(T::decode(room))
    }

    /// Returns the values of all indices, in order.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        (0..self.len()).map_while(|index| self.get(index))
    }
}

/// Exclusive write guard of a mapping; dropping it publishes the changes.
#[derive(Debug)]
pub struct MappingWriter<'a, T> {
    reader: MappingReader<'a, T>,
}

impl<'a, T> std::ops::Deref for MappingWriter<'a, T> {
    type Target = MappingReader<'a, T>;

    fn deref(&self) -> &MappingReader<'a, T> {
        &self.reader
    }
}

impl<T: Plain> MappingWriter<'_, T> {
    /// Sets the value of an index.
    ///
    /// # Errors
    /// [`ObjectError::Fault`] if there is no such index.
    pub fn set(&mut self, index: u64, value: &T) -> Result<(), ObjectError> {
        let ObjectGuard { object, job } = &mut self.reader.held;
        let available_bytes = object.layout().length_bytes();
        let start = usize::try_from(index).ok().and_then(|index| index.checked_mul(T::BYTES));
        let outside = OutOfRange { offset_bytes: usize::MAX, length_bytes: T::BYTES, available_bytes };
        let start = start.ok_or(Fault::Memory(outside))?;
        let mut small = [0; 32];
        match small.get_mut(..T::BYTES) {
            Some(room) => {
                value.encode(room);
                object.write(&*job.memory, start, room)?;
            }
            None => object.write(&*job.memory, start, &value.to_bytes())?,
        }
        Ok(())
    }
}
