//! Acquisition of several objects at once.

use std::time::{Duration, Instant};

use crate::error::ObjectError;
use crate::job::Job;
use crate::mapping::{Mapping, MappingReader, MappingWriter};
use crate::plain::Plain;
use crate::shared::{ReadGuard, Shared, WriteGuard};

/// An object to acquire for reading. Created by [`Shared::reading`] and [`Mapping::reading`].
#[derive(Debug)]
pub struct Reading<'a, H>(&'a mut H);

/// An object to acquire for writing. Created by [`Shared::writing`] and [`Mapping::writing`].
#[derive(Debug)]
pub struct Writing<'a, H>(&'a mut H);

/// A part of a composite acquisition.
pub trait Part<'a> {
    /// Guard that the acquisition returns.
    type Guard;

    /// Returns its position in the global order in which ranks acquire objects.
    fn place(&self) -> usize;

    /// Acquires this single part.
    ///
    /// # Errors
    /// As [`Shared::read_within`].
    fn acquire(self, job: &'a Job, timeout: Duration) -> Result<Self::Guard, ObjectError>;
}

macro_rules! parts {
    ($($handle:ident: $reader:ident, $writer:ident;)*) => {$(
        impl<T: Plain> $handle<T> {
            /// Makes this object a part of [`Job::acquire_all`], for reading.
            pub fn reading(&mut self) -> Reading<'_, Self> {
                Reading(self)
            }

            /// Makes this object a part of [`Job::acquire_all`], for writing.
            pub fn writing(&mut self) -> Writing<'_, Self> {
                Writing(self)
            }
        }

        impl<'a, T: Plain> Part<'a> for Reading<'a, $handle<T>> {
            type Guard = $reader<'a, T>;

            fn place(&self) -> usize {
                self.0.object.layout().at_bytes()
            }

            fn acquire(self, job: &'a Job, timeout: Duration) -> Result<Self::Guard, ObjectError> {
                self.0.read_within(job, timeout)
            }
        }

        impl<'a, T: Plain> Part<'a> for Writing<'a, $handle<T>> {
            type Guard = $writer<'a, T>;

            fn place(&self) -> usize {
                self.0.object.layout().at_bytes()
            }

            fn acquire(self, job: &'a Job, timeout: Duration) -> Result<Self::Guard, ObjectError> {
                self.0.write_within(job, timeout)
            }
        }
    )*};
}

parts! {
    Shared: ReadGuard, WriteGuard;
    Mapping: MappingReader, MappingWriter;
}

/// Parts to acquire together: a tuple of two to six.
pub trait Parts<'a> {
    /// Guards of the parts, in their order.
    type Guards;

    /// Acquires all of them, or none.
    ///
    /// # Errors
    /// As [`Shared::read_within`], for the first that fails.
    fn acquire(self, job: &'a Job, timeout: Duration) -> Result<Self::Guards, ObjectError>;
}

macro_rules! composites {
    ($($($name:ident $index:tt)+;)*) => {$(
        impl<'a, $($name: Part<'a>),+> Parts<'a> for ($($name,)+) {
            type Guards = ($($name::Guard,)+);

            #[allow(non_snake_case, reason = "the guard of a type parameter")]
            fn acquire(self, job: &'a Job, timeout: Duration) -> Result<Self::Guards, ObjectError> {
                let started = Instant::now();
                let mut order = [$((self.$index.place(), $index)),+];
                order.sort_unstable();
                let mut parts = ($(Some(self.$index),)+);
                $(let mut $name = None;)+
                for (_, index) in order {
                    let left = timeout.saturating_sub(started.elapsed());
                    $(if index == $index && let Some(part) = parts.$index.take() {
                        $name = Some(part.acquire(job, left)?);
                    })+
                }
                match ($($name,)+) {
                    ($(Some($name),)+) => Ok(($($name,)+)),
                    // Each index occurs in the order exactly once.
                    _ => unreachable!("a part was not acquired"),
                }
            }
        }
    )*};
}

composites! {
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
}

impl Job {
    /// Acquires several objects, or none of them, within the timeout of the job. All ranks acquire them in
    /// the same global order, so ranks that list the same objects in different orders do not deadlock.
    ///
    /// ```no_run
    /// # use tombolo_objects::{Job, ObjectError, Shared};
    /// # fn example(job: &Job, from: &mut Shared<i64>, to: &mut Shared<i64>) -> Result<(), ObjectError> {
    /// let (mut from, mut to) = job.acquire_all((from.writing(), to.writing()))?;
    /// *from -= 10;
    /// *to += 10;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Shared::read_within`].
    pub fn acquire_all<'a, P: Parts<'a>>(&'a self, parts: P) -> Result<P::Guards, ObjectError> {
        parts.acquire(self, self.timeout())
    }
}
