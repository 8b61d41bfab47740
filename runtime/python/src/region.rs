//! Regions, and capabilities to them.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tombolo::DomainId;
use tombolo::region::{CapabilityInfo, MapOptions, RegionInfo, RegionOptions};
use tombolo_admin::Machine;

use crate::boundary::{Source, descriptor, new_object};
use crate::failure::{Failure, region_class};
use crate::mapping::Mapping;
use crate::memory::source;
use crate::passing::{self, Right, Taken, end_of};
use crate::wait::{Seconds, wait_on_thread};

/// A right of this program to a part of a region.
///
/// From :meth:`Domain.create_region`, :meth:`derive` and :meth:`Domain.capability`. Its ``id`` can be sent in
/// any message, and is useless to programs that do not hold it::
///
///    region = domain.create_region(1 << 20)
///    id = region.grant(channel.peer, tombolo.Rights.READ)
///    channel.send(id.to_bytes(8, "little"))
///    # ... and the peer, once it has the id:
///    with domain.capability(id) as capability, capability.map() as memory:
///        print(memory.read(0, 16))
///
/// It is released by :meth:`close`, at the end of a ``with``, and when the last reference is dropped, once
/// its mappings are released as well; capabilities derived from it remain.
#[pyclass(module = "tombolo", frozen, subclass)]
#[derive(Debug)]
pub(crate) struct Capability {
    held: Mutex<Option<tombolo::region::Capability>>,
    info: Info,
}

/// Properties of a capability that never change.
#[derive(Clone, Copy, Debug)]
struct Info {
    id: u64,
    region: tombolo::region::RegionId,
    extent: tombolo::region::Extent,
    rights: tombolo::region::Rights,
    kind: tombolo::region::Kind,
}

/// Memory with an owner: the capability to all of it, which its creator holds. From
/// :meth:`Domain.create_region` and similar methods.
#[pyclass(module = "tombolo", frozen, extends = Capability)]
#[derive(Debug)]
pub(crate) struct Region {
    /// Registered memory, which stays in place meanwhile.
    registered: Mutex<Option<Source>>,
}

/// Rights, as given by Python.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rights(pub(crate) tombolo::region::Rights);

impl<'py> FromPyObject<'_, 'py> for Rights {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Rights> {
        let bits: u8 = object.extract().map_err(|_| {
            PyTypeError::new_err("rights are tombolo.Rights, such as Rights.READ | Rights.GRANT")
        })?;
        let rights = tombolo::region::Rights::from_bits(bits);
        Ok(Rights(rights.ok_or_else(|| Failure::invalid(format!("there are no rights {bits:#x}")))?))
    }
}

fn rights_of(py: Python<'_>, rights: tombolo::region::Rights) -> PyResult<Bound<'_, PyAny>> {
    region_class(py, "Rights")?.call1((rights.bits(),))
}

fn extent_of(py: Python<'_>, extent: tombolo::region::Extent) -> PyResult<Bound<'_, PyAny>> {
    region_class(py, "Extent")?.call1((extent.offset_bytes, extent.length_bytes))
}

fn capability_info<'py>(py: Python<'py>, info: &CapabilityInfo) -> PyResult<Bound<'py, PyAny>> {
    let fields = (
        info.id.0,
        info.region.to_bits(),
        extent_of(py, info.extent)?,
        rights_of(py, info.rights)?,
        info.holder.to_bits(),
        info.parent.map(|parent| parent.0),
        info.revoked,
    );
    region_class(py, "CapabilityInfo")?.call1(fields)
}

fn region_info<'py>(py: Python<'py>, info: &RegionInfo) -> PyResult<Bound<'py, PyAny>> {
    let fields = (
        info.id.to_bits(),
        info.length_bytes,
        info.maker.to_bits(),
        region_class(py, "Backing")?.call1((info.backing as u8,))?,
        region_class(py, "Seal")?.call1((info.seal as u8,))?,
        info.capabilities,
        info.mappings,
    );
    region_class(py, "RegionInfo")?.call1(fields)
}

fn domain_of(id: u64) -> Result<DomainId, Failure> {
    DomainId::from_bits(id).ok_or_else(|| Failure::new("NoSuchDomain", format!("{id:#x} is no domain's id")))
}

impl Capability {
    pub(crate) fn new(capability: tombolo::region::Capability) -> Capability {
        let info = Info {
            id: capability.id().0,
            region: capability.region(),
            extent: capability.extent(),
            rights: capability.rights(),
            kind: capability.kind(),
        };
        Capability { held: Mutex::new(Some(capability)), info }
    }

    /// Returns the capability, for a request during which the lock is not held.
    pub(crate) fn held(&self) -> Result<tombolo::region::Capability, Failure> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = || {
            let text = format!("capability {:#x} was let go here, or given away", self.info.id);
            Failure::new("NoSuchCapability", text)
        };
        held.clone().ok_or_else(gone)
    }

    fn take_capability(&self) -> Option<tombolo::region::Capability> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn copy_right<'py>(
        &self,
        to: &Bound<'py, PyAny>,
        rights: Rights,
        kind: u8,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let (capability, end) = (self.held()?, end_of(to)?);
        let object = to.py().detach(|| capability.copy_to(end, rights.0))?.object;
        Ok(Right { object, kind, moved: false }.into_python(to.py())?)
    }

    fn move_right<'py>(&self, to: &Bound<'py, PyAny>, kind: u8) -> Result<Bound<'py, PyAny>, Failure> {
        let (capability, end) = (self.held()?, end_of(to)?);
        let object = to.py().detach(|| capability.move_to(end))?.object;
        drop(self.take_capability());
        Ok(Right { object, kind, moved: true }.into_python(to.py())?)
    }

    fn revoked(&self, py: Python<'_>, itself: bool, timeout: Seconds) -> Result<Py<PyAny>, Failure> {
        let capability = self.held()?;
        let revoke = move || match itself {
            true => capability.revoke_all(timeout.0),
            false => capability.revoke(timeout.0),
        };
        let revoked = wait_on_thread(py, revoke)?;
        if itself {
            drop(self.take_capability());
        }
        let killed: Vec<u64> = revoked.killed.iter().map(|domain| domain.to_bits()).collect();
        Ok(region_class(py, "Revocation")?.call1((revoked.removed, killed))?.unbind())
    }
}

#[pymethods]
impl Capability {
    /// The id of the capability, which can be sent in any message.
    #[getter]
    pub(crate) fn id(&self) -> u64 {
        self.info.id
    }

    /// The id of the region: node, generation and index in one number.
    #[getter]
    fn region(&self) -> u64 {
        self.info.region.to_bits()
    }

    /// The part of the region that it covers: an :class:`Extent`.
    #[getter]
    fn extent<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        extent_of(py, self.info.extent)
    }

    /// The rights that it gives: :class:`Rights`.
    #[getter]
    fn rights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        rights_of(py, self.info.rights)
    }

    /// The kind of its object: a :class:`Kind`.
    #[getter]
    fn kind<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        region_class(py, "Kind")?.call1((self.info.kind as u8,))
    }

    /// Splits the memory into parts that do not overlap, each of a :class:`Kind`: a ``FRAME`` is mapped, a
    /// ``POOL`` is mapped only by a pool (``memory`` of :meth:`Domain.create_pool`), a ``MEMORY`` can be
    /// split again. `parts` are offsets and lengths in bytes, relative to the start of this capability's
    /// part. Needs ``Rights.READ_WRITE``.
    ///
    /// While a program holds a part or has it mapped, its bytes can neither be mapped through other
    /// capabilities nor split again: ``InUse`` contains the bytes. :meth:`revoke` takes all parts back.
    fn split(&self, py: Python<'_>, kind: u8, parts: Vec<(u64, u64)>) -> Result<Vec<Capability>, Failure> {
        use tombolo::region::{Extent, Kind};
        let known = [Kind::Memory, Kind::Frame, Kind::Pool].into_iter().find(|known| *known as u8 == kind);
        let kind = known.ok_or_else(|| Failure::invalid(format!("there are no parts of kind {kind}")))?;
        let parts: Vec<Extent> =
            parts.into_iter().map(|(offset, length)| Extent::new(offset, length)).collect();
        let capability = self.held()?;
        let made = py.detach(|| capability.split(kind, &parts))?;
        Ok(made.into_iter().map(Capability::new).collect())
    }

    /// Derives a capability for this program: to `extent`, an offset and a length in bytes relative to the
    /// start of this capability's part, or to all of that part; with a subset of the rights, by default all.
    #[pyo3(signature = (extent = None, rights = None))]
    fn derive(
        &self,
        py: Python<'_>,
        extent: Option<(u64, u64)>,
        rights: Option<Rights>,
    ) -> Result<Capability, Failure> {
        let capability = self.held()?;
        let extent = extent.map(|(offset, length)| tombolo::region::Extent::new(offset, length));
        let rights = rights.map_or(self.info.rights, |rights| rights.0);
        Ok(Capability::new(py.detach(|| capability.derive(extent, rights))?))
    }

    /// Derives a capability for `domain`, and returns its id, by which that domain takes it up
    /// (:meth:`Domain.capability`). This capability must include ``Rights.GRANT``.
    #[pyo3(signature = (domain, rights, extent = None))]
    fn grant(
        &self,
        py: Python<'_>,
        domain: u64,
        rights: Rights,
        extent: Option<(u64, u64)>,
    ) -> Result<u64, Failure> {
        let (capability, domain) = (self.held()?, domain_of(domain)?);
        let granted = py.detach(|| match extent {
            None => capability.grant(domain, rights.0),
            Some((offset, length)) => {
                capability.grant_part(domain, tombolo::region::Extent::new(offset, length), rights.0)
            }
        });
        Ok(granted?.id.0)
    }

    /// Transfers the capability to `domain`, with the same id, which is returned. This program's mappings of
    /// it are removed, and this object can no longer be used.
    fn give(&self, py: Python<'_>, domain: u64) -> Result<u64, Failure> {
        let (capability, domain) = (self.held()?, domain_of(domain)?);
        let id = py.detach(|| capability.give(domain))?;
        drop(self.take_capability());
        Ok(id.0)
    }

    /// Derives a capability with a subset of the rights for the program at the other end of a channel, for a
    /// parameter ``copy capability``: a :class:`Right`. The other end takes it up with :meth:`Domain.accept`.
    fn copy_to<'py>(&self, to: &Bound<'py, PyAny>, rights: Rights) -> Result<Bound<'py, PyAny>, Failure> {
        self.copy_right(to, rights, 3)
    }

    /// Transfers the capability to the program at the other end of a channel, for a parameter ``move
    /// capability``. This object can no longer be used; a right that was not sent can be taken back with
    /// :meth:`Domain.take_back`.
    fn move_to<'py>(&self, to: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, Failure> {
        self.move_right(to, 3)
    }

    /// Keeps the capability until this program ends, rather than this object; returns its id.
    fn keep(&self) -> Result<u64, Failure> {
        Ok(self.held()?.keep().0)
    }

    /// Maps its part of the region, with ``Rights.READ`` or ``Rights.READ_WRITE``; by default with those that
    /// this capability includes.
    ///
    /// The address is `address`, where nothing may be mapped, a multiple of `alignment`, a power of two, or
    /// any; with `populate`, all pages are populated immediately.
    #[pyo3(signature = (rights = None, *, address = None, alignment = 0, populate = false))]
    fn map<'py>(
        &self,
        py: Python<'py>,
        rights: Option<Rights>,
        address: Option<usize>,
        alignment: usize,
        populate: bool,
    ) -> Result<Bound<'py, Mapping>, Failure> {
        let capability = self.held()?;
        let rights = rights.map_or_else(
            || match self.info.rights.contains(tombolo::region::Rights::WRITE) {
                true => tombolo::region::Rights::READ_WRITE,
                false => tombolo::region::Rights::READ,
            },
            |rights| rights.0,
        );
        let options = MapOptions { address, alignment_bytes: alignment, populate };
        let mapping = py.detach(|| capability.map_with(rights, options))?;
        Ok(new_object(py, Mapping::new(mapping))?)
    }

    /// Queries the current state of the capability and its region: a :class:`Shown <tombolo.regions.Shown>`.
    fn show<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        let capability = self.held()?;
        let shown = py.detach(|| capability.show())?;
        let place = shown.foreign.map(|place| (place.pid, place.address));
        let place = place.map(|place| region_class(py, "ForeignPlace")?.call1(place)).transpose()?;
        let fields = (capability_info(py, &shown.capability)?, region_info(py, &shown.region)?, place);
        Ok(region_class(py, "Shown")?.call1(fields)?)
    }

    /// Revokes everything that was derived from it, in every program, and waits until no program can reach
    /// the memory through it. A program that does not unmap the memory in time is killed if the machine
    /// started it.
    ///
    /// Raises ``StillHeld`` if some still have it mapped: their rights are revoked, and the memory is not
    /// reused. After ``TimedOut`` the revocation continues.
    #[pyo3(signature = (timeout = Seconds(std::time::Duration::from_secs(30))), text_signature = "($self, timeout=30.0)")]
    fn revoke(&self, py: Python<'_>, timeout: Seconds) -> Result<Py<PyAny>, Failure> {
        self.revoked(py, false, timeout)
    }

    /// Like :meth:`revoke`, and revokes this capability as well.
    #[pyo3(signature = (timeout = Seconds(std::time::Duration::from_secs(30))), text_signature = "($self, timeout=30.0)")]
    fn revoke_all(&self, py: Python<'_>, timeout: Seconds) -> Result<Py<PyAny>, Failure> {
        self.revoked(py, true, timeout)
    }

    /// Prevents all programs, including this one, from writing to the region, with any rights; the kernel
    /// enforces this. Needs a capability to the whole region with the right to write; raises ``Sealed`` while
    /// it is mapped for writing.
    fn freeze(&self, py: Python<'_>) -> Result<(), Failure> {
        let capability = self.held()?;
        Ok(py.detach(|| capability.freeze())?)
    }

    /// Prevents all programs from mapping the region for writing; an existing mapping remains. Raises
    /// ``Sealed`` if another program has one.
    fn seal_to_sole_writer(&self, py: Python<'_>) -> Result<(), Failure> {
        let capability = self.held()?;
        Ok(py.detach(|| capability.seal_to_sole_writer())?)
    }

    /// Releases the capability. Closing again has no effect.
    fn close(&self) {
        drop(self.take_capability());
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        slf: &Bound<'_, Self>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        slf.call_method0("close").map(drop)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let Info { id, region, extent, .. } = slf.get().info;
        let rights = rights_of(slf.py(), slf.get().info.rights)?.str()?;
        let (class, offset, length) = (slf.get_type().name()?, extent.offset_bytes, extent.length_bytes);
        let is_held = slf.get().held.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        let gone = if is_held { "" } else { ", let go" };
        Ok(format!(
            "<tombolo.{class} {id:#x} to bytes {offset}..+{length} of region {region}, {rights}{gone}>"
        ))
    }
}

#[pymethods]
impl Region {
    /// The length in bytes: the requested length, rounded up to pages.
    fn __len__(slf: &Bound<'_, Self>) -> usize {
        usize::try_from(slf.as_super().get().info.extent.length_bytes).unwrap_or(usize::MAX)
    }

    /// Like :meth:`Capability.copy_to`, for a parameter ``copy region``.
    fn copy_to<'py>(
        slf: &Bound<'py, Self>,
        to: &Bound<'py, PyAny>,
        rights: Rights,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        slf.as_super().get().copy_right(to, rights, 2)
    }

    /// Like :meth:`Capability.move_to`, for a parameter ``move region``.
    fn move_to<'py>(slf: &Bound<'py, Self>, to: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, Failure> {
        slf.as_super().get().move_right(to, 2)
    }

    /// Releases the region; for registered memory, first revokes what was derived, so that no copy reaches
    /// memory that is reused. Closing again has no effect.
    #[pyo3(signature = (timeout = Seconds(std::time::Duration::from_secs(30))), text_signature = "($self, timeout=30.0)")]
    fn close(slf: &Bound<'_, Self>, timeout: Seconds) -> Result<(), Failure> {
        let capability = slf.as_super().get();
        let is_registered = slf.get().registered.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if is_registered && capability.held().is_ok() {
            capability.revoked(slf.py(), true, timeout)?;
        }
        capability.close();
        let registered = slf.get().registered.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(registered);
        Ok(())
    }
}

fn region(
    py: Python<'_>,
    region: tombolo::region::Region,
    registered: Option<Source>,
) -> Result<Py<Region>, Failure> {
    let base = PyClassInitializer::from(Capability::new(region.into_capability()));
    let made = Region { registered: Mutex::new(registered) };
    Ok(Py::new(py, base.add_subclass(made))?)
}

/// Implements [`Domain::create_region`](crate::domain::Domain).
pub(crate) fn create(
    py: Python<'_>,
    domain: &tombolo::Domain,
    options: &RegionOptions,
) -> Result<Py<Region>, Failure> {
    region(py, py.detach(|| domain.create_region(options))?, None)
}

/// Implements [`Domain::accept`](crate::domain::Domain).
pub(crate) fn accept(
    py: Python<'_>,
    domain: &tombolo::Domain,
    from: &Bound<'_, PyAny>,
    right: Right,
) -> Result<Py<PyAny>, Failure> {
    match passing::accept(py, domain, end_of(from)?, right)? {
        Taken::Region(taken) => Ok(region(py, taken, None)?.into_any()),
        Taken::Capability(taken) => Ok(Py::new(py, Capability::new(taken))?.into_any()),
    }
}

/// Creates a region from a descriptor, or an object that has one.
pub(crate) fn of_file(
    py: Python<'_>,
    domain: &tombolo::Domain,
    file: &Bound<'_, PyAny>,
    length: u64,
) -> Result<Py<Region>, Failure> {
    let file = descriptor(file)?;
    region(py, py.detach(|| domain.region_of_file(&file, length))?, None)
}

/// Registers the memory of an object, which stays in place as long as the region exists.
pub(crate) fn register(
    py: Python<'_>,
    domain: &tombolo::Domain,
    object: &Bound<'_, PyAny>,
) -> Result<Py<Region>, Failure> {
    let memory = source(object, false)?;
    let (address, length) = (memory.address(), memory.len() as u64);
    region(py, domain.register_memory(address, length)?, Some(memory))
}

/// Returns all capabilities that this program holds.
pub(crate) fn capabilities<'py>(
    py: Python<'py>,
    domain: &tombolo::Domain,
) -> Result<Vec<Bound<'py, PyAny>>, Failure> {
    let all = py.detach(|| domain.capabilities())?;
    Ok(all.iter().map(|info| capability_info(py, info)).collect::<PyResult<_>>()?)
}

/// Returns all regions of the machine.
pub(crate) fn regions<'py>(
    py: Python<'py>,
    domain: &tombolo::Domain,
) -> Result<Vec<Bound<'py, PyAny>>, Failure> {
    let all = py.detach(|| Machine::of(domain).regions())?;
    Ok(all.iter().map(|info| region_info(py, info)).collect::<PyResult<_>>()?)
}
