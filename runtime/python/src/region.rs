//! Regions, and the rights to them.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tombolo::DomainId;
use tombolo::region::{CapabilityInfo, MapOptions, RegionInfo, RegionOptions};
use tombolo_admin::Machine;

use crate::boundary::{Source, descriptor, made};
use crate::failure::{Failure, region_class};
use crate::mapping::Mapping;
use crate::memory::source;
use crate::passing::{self, Right, Taken, end_of};
use crate::wait::{Seconds, wait_apart};

/// A right to a part of a region, which this program holds.
///
/// From :meth:`Domain.create_region`, :meth:`derive` and :meth:`Domain.capability`. Its ``id`` may travel in
/// any message, and says nothing to those who do not hold it::
///
///    region = domain.create_region(1 << 20)
///    id = region.grant(channel.peer, tombolo.Rights.READ)
///    channel.send(id.to_bytes(8, "little"))
///    # ... and the peer, once it has the id:
///    with domain.capability(id) as capability, capability.map() as memory:
///        print(memory.read(0, 16))
///
/// It is let go by :meth:`close`, at the end of a ``with``, and when nothing refers to it any more, once what
/// it has mapped is let go too; what was derived from it stays.
#[pyclass(module = "tombolo", frozen, subclass)]
#[derive(Debug)]
pub(crate) struct Capability {
    held: Mutex<Option<tombolo::region::Capability>>,
    info: Info,
}

/// What of a capability never changes.
#[derive(Clone, Copy, Debug)]
struct Info {
    id: u64,
    region: tombolo::region::RegionId,
    extent: tombolo::region::Extent,
    rights: tombolo::region::Rights,
    kind: tombolo::region::Kind,
}

/// Memory with an owner: the capability to all of it, which its maker holds. From
/// :meth:`Domain.create_region` and its like.
#[pyclass(module = "tombolo", frozen, extends = Capability)]
#[derive(Debug)]
pub(crate) struct Region {
    /// Memory that was registered, which stays where it is meanwhile.
    registered: Mutex<Option<Source>>,
}

/// Rights, as Python says them.
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

    /// The capability, for a request that other threads do not wait for.
    pub(crate) fn held(&self) -> Result<tombolo::region::Capability, Failure> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = || {
            let text = format!("capability {:#x} was let go here, or given away", self.info.id);
            Failure::new("NoSuchCapability", text)
        };
        held.clone().ok_or_else(gone)
    }

    fn let_go(&self) -> Option<tombolo::region::Capability> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn copied<'py>(
        &self,
        to: &Bound<'py, PyAny>,
        rights: Rights,
        kind: u8,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let (capability, end) = (self.held()?, end_of(to)?);
        let object = to.py().detach(|| capability.copy_to(end, rights.0))?.object;
        Ok(Right { object, kind, moved: false }.into_python(to.py())?)
    }

    fn moved<'py>(&self, to: &Bound<'py, PyAny>, kind: u8) -> Result<Bound<'py, PyAny>, Failure> {
        let (capability, end) = (self.held()?, end_of(to)?);
        let object = to.py().detach(|| capability.move_to(end))?.object;
        drop(self.let_go());
        Ok(Right { object, kind, moved: true }.into_python(to.py())?)
    }

    fn revoked(&self, py: Python<'_>, itself: bool, timeout: Seconds) -> Result<Py<PyAny>, Failure> {
        let capability = self.held()?;
        let revoke = move || match itself {
            true => capability.revoke_all(timeout.0),
            false => capability.revoke(timeout.0),
        };
        let revoked = wait_apart(py, revoke)?;
        if itself {
            drop(self.let_go());
        }
        let killed: Vec<u64> = revoked.killed.iter().map(|domain| domain.to_bits()).collect();
        Ok(region_class(py, "Revocation")?.call1((revoked.removed, killed))?.unbind())
    }
}

#[pymethods]
impl Capability {
    /// Its id, which may travel in any message.
    #[getter]
    pub(crate) fn id(&self) -> u64 {
        self.info.id
    }

    /// The id of the region: node, generation and index in one number.
    #[getter]
    fn region(&self) -> u64 {
        self.info.region.to_bits()
    }

    /// Which part of the region: an :class:`Extent`.
    #[getter]
    fn extent<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        extent_of(py, self.info.extent)
    }

    /// What may be done: :class:`Rights`.
    #[getter]
    fn rights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        rights_of(py, self.info.rights)
    }

    /// What it is to: a :class:`Kind`.
    #[getter]
    fn kind<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        region_class(py, "Kind")?.call1((self.info.kind as u8,))
    }

    /// Splits the memory into parts that do not overlap, each of a :class:`Kind`: ``FRAME`` is mapped,
    /// ``POOL`` is mapped by a pool alone (``memory`` of :meth:`Domain.create_pool`), ``MEMORY`` can be split
    /// again. `parts` are offsets and lengths in bytes, counted from the start of this one's part. Takes
    /// ``Rights.READ_WRITE``.
    ///
    /// While a program holds a part or has it mapped, its bytes can neither be mapped by others to the memory
    /// nor split again: ``InUse`` names the bytes. :meth:`revoke` takes all parts back.
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

    /// Derives another for this program: to `extent`, an offset and a length in bytes counted from the start
    /// of this one's part, or to all of that; with those of the rights, all if none are said.
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

    /// Derives another for `domain`, and returns its id, by which that takes it up
    /// (:meth:`Domain.capability`). This one must give ``Rights.GRANT``.
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

    /// Hands it over: `domain` holds it from now on, by the same id, which is returned. Where this program
    /// has it mapped it is let go, and this object is of no more use.
    fn give(&self, py: Python<'_>, domain: u64) -> Result<u64, Failure> {
        let (capability, domain) = (self.held()?, domain_of(domain)?);
        let id = py.detach(|| capability.give(domain))?;
        drop(self.let_go());
        Ok(id.0)
    }

    /// Derives another with those of the rights for the program at the other end of a channel, for a
    /// parameter ``copy capability``: a :class:`Right`. The other end takes it up with :meth:`Domain.accept`.
    fn copy_to<'py>(&self, to: &Bound<'py, PyAny>, rights: Rights) -> Result<Bound<'py, PyAny>, Failure> {
        self.copied(to, rights, 3)
    }

    /// Hands it over to the program at the other end of a channel, for a parameter ``move capability``. This
    /// object is of no more use; what was not sent is taken back with :meth:`Domain.take_back`.
    fn move_to<'py>(&self, to: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, Failure> {
        self.moved(to, 3)
    }

    /// It is not let go with this object, but with this program; its id.
    fn keep(&self) -> Result<u64, Failure> {
        Ok(self.held()?.keep().0)
    }

    /// Maps its part of the region: with ``Rights.READ``, or with ``Rights.READ_WRITE``; with what this one
    /// gives of these if nothing is said.
    ///
    /// At `address`, where nothing is mapped, or at any multiple of `alignment`, a power of two, or anywhere;
    /// with `populate` all pages are there from the start.
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
        Ok(made(py, Mapping::new(mapping))?)
    }

    /// What it is to, as the machine has it now: a :class:`Shown <tombolo.regions.Shown>`.
    fn show<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        let capability = self.held()?;
        let shown = py.detach(|| capability.show())?;
        let place = shown.foreign.map(|place| (place.pid, place.address));
        let place = place.map(|place| region_class(py, "ForeignPlace")?.call1(place)).transpose()?;
        let fields = (capability_info(py, &shown.capability)?, region_info(py, &shown.region)?, place);
        Ok(region_class(py, "Shown")?.call1(fields)?)
    }

    /// Takes back everything that was derived from it, wherever it went, and waits until no program can reach
    /// the memory by that any more. Who has it mapped and does not let go in time is killed if the machine
    /// started it.
    ///
    /// ``StillHeld`` says that some have not let go even so: their rights are gone, and the memory is not
    /// given out again. After ``TimedOut`` the revocation goes on.
    #[pyo3(signature = (timeout = Seconds(std::time::Duration::from_secs(30))), text_signature = "($self, timeout=30.0)")]
    fn revoke(&self, py: Python<'_>, timeout: Seconds) -> Result<Py<PyAny>, Failure> {
        self.revoked(py, false, timeout)
    }

    /// As :meth:`revoke`, and this one too.
    #[pyo3(signature = (timeout = Seconds(std::time::Duration::from_secs(30))), text_signature = "($self, timeout=30.0)")]
    fn revoke_all(&self, py: Python<'_>, timeout: Seconds) -> Result<Py<PyAny>, Failure> {
        self.revoked(py, true, timeout)
    }

    /// Keeps all programs from writing to the region, whatever rights they hold, this one included, by the
    /// kernel. Takes a capability to all of it, with the right to write; ``Sealed`` while it is mapped for
    /// writing.
    fn freeze(&self, py: Python<'_>) -> Result<(), Failure> {
        let capability = self.held()?;
        Ok(py.detach(|| capability.freeze())?)
    }

    /// Keeps all programs from mapping the region for writing; a mapping that exists stays. ``Sealed`` if
    /// another has one.
    fn seal_to_sole_writer(&self, py: Python<'_>) -> Result<(), Failure> {
        let capability = self.held()?;
        Ok(py.detach(|| capability.seal_to_sole_writer())?)
    }

    /// Lets it go. Doing it again does nothing.
    fn close(&self) {
        drop(self.let_go());
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
    /// How many bytes it has: what was asked for, rounded up to pages.
    fn __len__(slf: &Bound<'_, Self>) -> usize {
        usize::try_from(slf.as_super().get().info.extent.length_bytes).unwrap_or(usize::MAX)
    }

    /// As :meth:`Capability.copy_to`, for a parameter ``copy region``.
    fn copy_to<'py>(
        slf: &Bound<'py, Self>,
        to: &Bound<'py, PyAny>,
        rights: Rights,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        slf.as_super().get().copied(to, rights, 2)
    }

    /// As :meth:`Capability.move_to`, for a parameter ``move region``.
    fn move_to<'py>(slf: &Bound<'py, Self>, to: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, Failure> {
        slf.as_super().get().moved(to, 2)
    }

    /// Lets it go; of memory that was registered it takes back what was derived, so that no copy reaches what
    /// will be something else. Doing it again does nothing.
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

/// See [`Domain::create_region`](crate::domain::Domain).
pub(crate) fn create(
    py: Python<'_>,
    domain: &tombolo::Domain,
    options: &RegionOptions,
) -> Result<Py<Region>, Failure> {
    region(py, py.detach(|| domain.create_region(options))?, None)
}

/// See [`Domain::accept`](crate::domain::Domain).
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

/// A descriptor, or an object that has one.
pub(crate) fn of_file(
    py: Python<'_>,
    domain: &tombolo::Domain,
    file: &Bound<'_, PyAny>,
    length: u64,
) -> Result<Py<Region>, Failure> {
    let file = descriptor(file)?;
    region(py, py.detach(|| domain.region_of_file(&file, length))?, None)
}

/// The memory of an object, which stays where it is for as long as the region is there.
pub(crate) fn register(
    py: Python<'_>,
    domain: &tombolo::Domain,
    object: &Bound<'_, PyAny>,
) -> Result<Py<Region>, Failure> {
    let memory = source(object, false)?;
    let (address, length) = (memory.address(), memory.len() as u64);
    region(py, domain.register_memory(address, length)?, Some(memory))
}

/// All capabilities that this program holds.
pub(crate) fn capabilities<'py>(
    py: Python<'py>,
    domain: &tombolo::Domain,
) -> Result<Vec<Bound<'py, PyAny>>, Failure> {
    let all = py.detach(|| domain.capabilities())?;
    Ok(all.iter().map(|info| capability_info(py, info)).collect::<PyResult<_>>()?)
}

/// All regions of the machine.
pub(crate) fn regions<'py>(
    py: Python<'py>,
    domain: &tombolo::Domain,
) -> Result<Vec<Bound<'py, PyAny>>, Failure> {
    let all = py.detach(|| Machine::of(domain).regions())?;
    Ok(all.iter().map(|info| region_info(py, info)).collect::<PyResult<_>>()?)
}
