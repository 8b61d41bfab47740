//! Domains, listeners, and opening of channels.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use tombolo::region::{CapabilityId, RegionOptions};
use tombolo::{ChannelOptions, SpawnOptions, WaitSet};

use crate::attached::Domain;
use crate::bulk::{self, BulkChannel};
use crate::channel::Channel;
use crate::failure::{Failure, exclusive};
use crate::files;
use crate::job::Job;
use crate::names::Names;
use crate::opening::RequestListener;
use crate::passing::Right;
use crate::pool::{self, Pool};
use crate::region::{self, Capability, Region, Rights};
use crate::wait::{Deadline, Seconds, wait, wait_on, wait_on_thread};

/// Attaches to a machine: to the one with the given name, the one that started this program, the one that
/// ``TOMBOLO_MACHINE`` names, or the only one that is up. On a plain host with no machine, starts a monitor
/// for this host alone.
#[pyfunction]
#[pyo3(signature = (machine = None))]
pub(crate) fn attach(py: Python<'_>, machine: Option<String>) -> Result<Domain, Failure> {
    let attach = move || match machine {
        Some(name) => tombolo::Domain::attach_to_machine(&name),
        None => tombolo::Domain::attach(),
    };
    Ok(Domain { domain: wait_on_thread(py, attach)? })
}

/// Options of a channel.
#[derive(Clone, Copy, Debug)]
struct Options {
    slot_bytes: Option<usize>,
    slots: Option<u32>,
    interface_hash: u64,
    spin: Option<Seconds>,
    used_flag: bool,
}

impl Options {
    fn read(self) -> Result<ChannelOptions, Failure> {
        let mut options = ChannelOptions::default().interface_hash(self.interface_hash);
        if let Some(slot_bytes) = self.slot_bytes {
            options = options.slot_bytes(slot_bytes)?;
        }
        if let Some(slots) = self.slots {
            options = options.slots(slots)?;
        }
        if let Some(Seconds(spin)) = self.spin {
            options = options.spin_ns(u64::try_from(spin.as_nanos()).unwrap_or(u64::MAX));
        }
        Ok(if self.used_flag { options.used_flag() } else { options })
    }
}

#[pymethods]
impl Domain {
    /// The id of the domain: node, generation and index in one number.
    #[getter]
    fn id(&self) -> u64 {
        self.domain.id().to_bits()
    }

    /// The name of the node that the domain runs on.
    #[getter]
    fn node_name(&self) -> &str {
        self.domain.node_name()
    }

    /// The name of the machine.
    #[getter]
    fn machine_name(&self) -> &str {
        self.domain.machine_name()
    }

    /// Whether the machine started this program.
    #[getter]
    fn was_spawned(&self) -> bool {
        self.domain.was_spawned()
    }

    /// The job that this program was started in. Raises ``NotInJob`` if it was not started as part of a job.
    fn job(&self) -> Result<Job, Failure> {
        Ok(Job::new(self.domain.job()?))
    }

    /// Access to names: records that programs find, wait for and watch.
    #[getter]
    fn names(&self) -> Names {
        Names::new(self.domain.names())
    }

    /// The files that were granted to this program's job (``tombolo run --grant``), or, with a `name`, those
    /// that are served under that name: a :class:`Files <tombolo.files.Files>`.
    ///
    /// Bytes are transferred through `buffers` buffers of `buffer_bytes` bytes, by default 8 of 256 KiB.
    /// `timeout` limits each operation, by default to one minute. Raises ``NotGranted`` if there are no
    /// files.
    #[pyo3(signature = (name = None, *, buffer_bytes = None, buffers = None, timeout = None))]
    fn files<'py>(
        &self,
        py: Python<'py>,
        name: Option<String>,
        buffer_bytes: Option<u64>,
        buffers: Option<u32>,
        timeout: Option<Seconds>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let service = files::reach(py, &self.domain, name, (buffer_bytes, buffers), timeout)?;
        Ok(py.import("tombolo.files")?.call_method1("Files", (service,))?)
    }

    /// Claims a name under which other programs can connect: machine-wide, or on this program's node if it is
    /// written ``@/NAME``.
    ///
    /// `interface_hash` and `slot_bytes` (32, 64 or 128) must be the same on the connecting side; `spin` is
    /// the number of seconds that a wait polls before it sleeps.
    #[pyo3(signature = (name, *, slot_bytes = None, slots = None, interface_hash = 0, spin = None, used_flag = false))]
    #[expect(clippy::too_many_arguments, reason = "they have names where they are called")]
    fn export(
        &self,
        py: Python<'_>,
        name: &str,
        slot_bytes: Option<usize>,
        slots: Option<u32>,
        interface_hash: u64,
        spin: Option<Seconds>,
        used_flag: bool,
    ) -> Result<Listener, Failure> {
        let options = Options { slot_bytes, slots, interface_hash, spin, used_flag }.read()?;
        let listener = py.detach(|| options.export(&self.domain, name))?;
        Ok(Listener::new(name, Accepts::Plain(listener)))
    }

    /// Opens a channel to the program that exports a name, waiting up to `timeout` seconds for a program to
    /// export it and to accept.
    ///
    /// This side chooses the number of `slots` per ring, a power of two from 2 to 65,536, and `used_flag`.
    #[pyo3(signature = (name, *, timeout = Seconds(std::time::Duration::from_secs(30)), slot_bytes = None, slots = None,
                        interface_hash = 0, spin = None, used_flag = false),
           text_signature = "($self, name, *, timeout=30.0, slot_bytes=None, slots=None, interface_hash=0, spin=None, used_flag=False)")]
    #[expect(clippy::too_many_arguments, reason = "they have names where they are called")]
    fn connect(
        &self,
        py: Python<'_>,
        name: &str,
        timeout: Seconds,
        slot_bytes: Option<usize>,
        slots: Option<u32>,
        interface_hash: u64,
        spin: Option<Seconds>,
        used_flag: bool,
    ) -> Result<Channel, Failure> {
        let options = Options { slot_bytes, slots, interface_hash, spin, used_flag }.read()?;
        Ok(Channel::new(wait_on(py, options.connect_async(&self.domain.within(timeout.0), name))?))
    }

    /// Like :meth:`connect`, with a request of up to 1,024 bytes on which the listener decides:
    /// `OpeningRefused` contains its reason. `kind` identifies the meaning of the bytes, for example the hash
    /// of an interface; the listener must use the same kind, otherwise the connection is `Refused`.
    #[pyo3(signature = (name, request, *, kind = 0, timeout = Seconds(std::time::Duration::from_secs(30)), slot_bytes = None,
                        slots = None, interface_hash = 0),
           text_signature = "($self, name, request, *, kind=0, timeout=30.0, slot_bytes=None, slots=None, interface_hash=0)")]
    #[expect(clippy::too_many_arguments, reason = "they have names where they are called")]
    fn connect_with(
        &self,
        py: Python<'_>,
        name: &str,
        request: &[u8],
        kind: u64,
        timeout: Seconds,
        slot_bytes: Option<usize>,
        slots: Option<u32>,
        interface_hash: u64,
    ) -> Result<Channel, Failure> {
        let options = Options { slot_bytes, slots, interface_hash, spin: None, used_flag: false }.read()?;
        let options = options.request(kind, request)?;
        Ok(Channel::new(wait_on(py, options.connect_async(&self.domain.within(timeout.0), name))?))
    }

    /// Claims a name under which programs connect with requests of a kind, see :meth:`connect_with`.
    #[pyo3(signature = (name, *, kind = 0, slot_bytes = None, interface_hash = 0))]
    fn export_for_requests(
        &self,
        py: Python<'_>,
        name: &str,
        kind: u64,
        slot_bytes: Option<usize>,
        interface_hash: u64,
    ) -> Result<RequestListener, Failure> {
        let options =
            Options { slot_bytes, slots: None, interface_hash, spin: None, used_flag: false }.read()?;
        let listener = py.detach(|| options.export_for_requests(&self.domain, name, kind))?;
        Ok(RequestListener::new(name, listener))
    }

    /// Creates a region of `length` bytes, rounded up to pages, and returns the capability to all of it.
    ///
    /// The region is in memory of `node`, by default this program's, which programs on that node's kernel can
    /// reach; or, with ``window=True``, in the window between the host and `node`, which programs of both can
    /// reach. `huge_pages` is the size of its pages, `numa_node` the NUMA node of its memory; neither applies
    /// to a window. In a window, `alignment` is the alignment of its offset, a power of two, and
    /// ``coherent=True`` requires that both sides see each other's stores without flushing caches.
    #[pyo3(signature = (
        length, *, node = None, window = false, huge_pages = None, numa_node = None, alignment = 0, coherent = false
    ))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword")]
    fn create_region(
        &self,
        py: Python<'_>,
        length: u64,
        node: Option<&str>,
        window: bool,
        huge_pages: Option<u64>,
        numa_node: Option<u16>,
        alignment: u64,
        coherent: bool,
    ) -> Result<Py<Region>, Failure> {
        let mut options = RegionOptions::new(length).alignment_bytes(alignment);
        if coherent {
            options = options.coherent();
        }
        options = match (node, window) {
            (None, false) => options,
            (Some(node), false) => options.on(node),
            (Some(node), true) => options.in_window_of(node),
            (None, true) => return Err(Failure::invalid("a window is that of a node: name it")),
        };
        if let Some(page_bytes) = huge_pages {
            options = options.huge_pages(page_bytes);
        }
        if let Some(numa_node) = numa_node {
            options = options.numa_node(numa_node);
        }
        region::create(py, &self.domain, &options)
    }

    /// Creates a region from the first `length` bytes of a file of the host: an open file or a descriptor.
    /// Other programs can map it for reading, and for writing if it was opened for both.
    fn region_of_file(
        &self,
        py: Python<'_>,
        file: &Bound<'_, PyAny>,
        length: u64,
    ) -> Result<Py<Region>, Failure> {
        region::of_file(py, &self.domain, file, length)
    }

    /// Registers the memory of an object, for example a numpy array, as a region, without copying it. Other
    /// programs cannot map it: a program with a capability learns its location (:meth:`Capability.show`), to
    /// copy from or to it. The object's memory stays in place until the region is closed.
    fn register_memory(&self, py: Python<'_>, memory: &Bound<'_, PyAny>) -> Result<Py<Region>, Failure> {
        region::register(py, &self.domain, memory)
    }

    /// Takes up a capability that was granted or given to this program, by its id. Take it up only once: it
    /// is released with the returned object.
    fn capability(&self, py: Python<'_>, id: u64) -> Result<Capability, Failure> {
        Ok(Capability::new(py.detach(|| self.domain.capability(CapabilityId(id)))?))
    }

    /// Takes up a right to memory that arrived in a message: a :class:`Region`, or a :class:`Capability`.
    /// `from_` is the channel that carried it, or its ``far_end``, that of a client or that of a server.
    ///
    /// Raises ``RightRefused`` if that program did not grant it to this program, it was taken up before, or
    /// it no longer exists. A handler that does not catch this refuses the call.
    fn accept(&self, py: Python<'_>, from_: &Bound<'_, PyAny>, right: Right) -> Result<Py<PyAny>, Failure> {
        region::accept(py, &self.domain, from_, right)
    }

    /// Takes back a right that was copied or moved for a message that was not sent, or whose receiver has not
    /// taken it up.
    fn take_back(&self, py: Python<'_>, right: Right) -> Result<Capability, Failure> {
        let handle = tombolo::interface::Capability::<false> { object: right.object };
        Ok(Capability::new(py.detach(|| self.domain.take_back(handle))?))
    }

    /// Listens under a new random name: the ``endpoint`` of the returned listener is its address, for a
    /// parameter ``copy endpoint``.
    #[pyo3(signature = (*, interface_hash = 0))]
    fn listen(&self, py: Python<'_>, interface_hash: u64) -> Result<Listener, Failure> {
        let options = ChannelOptions::default().interface_hash(interface_hash);
        let listener = py.detach(|| options.listen(&self.domain))?;
        let name = listener.name().to_owned();
        Ok(Listener::new(&name, Accepts::Plain(listener)))
    }

    /// Opens a channel to the program that listens at an endpoint.
    #[pyo3(signature = (endpoint, *, timeout = Seconds(std::time::Duration::from_secs(30)), interface_hash = 0),
           text_signature = "($self, endpoint, *, timeout=30.0, interface_hash=0)")]
    fn connect_to(
        &self,
        py: Python<'_>,
        endpoint: Right,
        timeout: Seconds,
        interface_hash: u64,
    ) -> Result<Channel, Failure> {
        if endpoint.kind != 1 {
            return Err(Failure::invalid("it is no endpoint"));
        }
        let options = ChannelOptions::default().interface_hash(interface_hash);
        let endpoint = tombolo::Endpoint::from_number(endpoint.object);
        Ok(Channel::new(wait_on(py, options.connect_async(&self.domain.within(timeout.0), endpoint))?))
    }

    /// Creates a pool of `count` buffers of `buffer_bytes` bytes each, a multiple of 64.
    ///
    /// With `trust` "full", programs that receive it map it, and its memory is not touched by the kernel from
    /// then on; with "none", each buffer has memory of its own, which the kernel protects against writes by
    /// others. If `reachable_from` is given, the pool is in memory that programs on that node can also reach:
    /// for a virtual machine, its window. With `memory`, a :class:`Capability`, the pool is in that memory,
    /// best in a part of ``Kind.POOL``.
    #[pyo3(signature = (buffer_bytes, count, *, trust = "full", reachable_from = None, memory = None))]
    fn create_pool(
        &self,
        py: Python<'_>,
        buffer_bytes: u64,
        count: u32,
        trust: &str,
        reachable_from: Option<&str>,
        memory: Option<&Capability>,
    ) -> Result<Pool, Failure> {
        let memory = memory.map(Capability::held).transpose()?;
        pool::create(py, &self.domain, (buffer_bytes, count), trust, (reachable_from, memory))
    }

    /// Takes up a capability that this program was given at its start, by its name (``given`` of
    /// :meth:`spawn`). Can be called repeatedly.
    fn given(&self, py: Python<'_>, name: &str) -> Result<Capability, Failure> {
        Ok(Capability::new(py.detach(|| self.domain.given(name))?))
    }

    /// Listens without a name: returns the listener, and a :class:`Capability` to the service, which programs
    /// need to connect.
    #[pyo3(signature = (*, interface_hash = 0))]
    fn serve(&self, py: Python<'_>, interface_hash: u64) -> Result<(Listener, Capability), Failure> {
        let options = ChannelOptions::default().interface_hash(interface_hash);
        let (listener, service) = py.detach(|| options.serve(&self.domain))?;
        Ok((Listener::new("", Accepts::Plain(listener)), Capability::new(service)))
    }

    /// Like :meth:`connect`, with a capability to a service with ``Rights.CONNECT``.
    #[pyo3(signature = (service, *, timeout = Seconds(std::time::Duration::from_secs(30)), interface_hash = 0),
           text_signature = "($self, service, *, timeout=30.0, interface_hash=0)")]
    fn connect_by(
        &self,
        py: Python<'_>,
        service: &Capability,
        timeout: Seconds,
        interface_hash: u64,
    ) -> Result<Channel, Failure> {
        let options = ChannelOptions::default().interface_hash(interface_hash);
        let service = service.held()?;
        Ok(Channel::new(wait_on(py, options.connect_async(&self.domain.within(timeout.0), &service))?))
    }

    /// Claims a name under which other programs open bulk channels: see :meth:`Listener.accept_bulk`.
    ///
    /// `trust` must be the same as on the connecting side; of `max_pools`, 1 to 32, and `max_metadata_bytes`,
    /// up to 2,048, the lower values apply. Pools up to `max_pool_bytes` are accepted automatically; with
    /// `ask` they are reported, to be accepted or declined.
    #[pyo3(signature = (name, *, trust = "full", max_pools = None, max_metadata_bytes = None, max_pool_bytes = None,
                        ask = false, spin = None))]
    #[expect(clippy::too_many_arguments, reason = "they have names where they are called")]
    fn export_bulk(
        &self,
        py: Python<'_>,
        name: &str,
        trust: &str,
        max_pools: Option<u8>,
        max_metadata_bytes: Option<u16>,
        max_pool_bytes: Option<u64>,
        ask: bool,
        spin: Option<Seconds>,
    ) -> Result<Listener, Failure> {
        let slots = None;
        let options =
            bulk::Options { trust, max_pools, max_metadata_bytes, max_pool_bytes, ask, spin, slots }
                .read()?;
        let listener = py.detach(|| options.export(&self.domain, name))?;
        Ok(Listener::new(name, Accepts::Bulk(listener)))
    }

    /// Opens a bulk channel to the program that exports a name for bulk data. The options are those of
    /// :meth:`export_bulk`; this side chooses the number of `slots` per ring, a power of two from 2 to
    /// 65,536.
    #[pyo3(signature = (name, *, timeout = Seconds(std::time::Duration::from_secs(30)), trust = "full", max_pools = None,
                        max_metadata_bytes = None, max_pool_bytes = None, ask = false, spin = None, slots = None),
           text_signature = "($self, name, *, timeout=30.0, trust='full', max_pools=None, max_metadata_bytes=None, max_pool_bytes=None, ask=False, spin=None, slots=None)")]
    #[expect(clippy::too_many_arguments, reason = "they have names where they are called")]
    fn connect_bulk(
        &self,
        py: Python<'_>,
        name: &str,
        timeout: Seconds,
        trust: &str,
        max_pools: Option<u8>,
        max_metadata_bytes: Option<u16>,
        max_pool_bytes: Option<u64>,
        ask: bool,
        spin: Option<Seconds>,
        slots: Option<u32>,
    ) -> Result<BulkChannel, Failure> {
        let options =
            bulk::Options { trust, max_pools, max_metadata_bytes, max_pool_bytes, ask, spin, slots }
                .read()?;
        bulk::connect(py, &self.domain, name, options, timeout.0)
    }

    /// All capabilities that this program holds: :class:`CapabilityInfo <tombolo.regions.CapabilityInfo>`.
    fn capabilities<'py>(&self, py: Python<'py>) -> Result<Vec<Bound<'py, PyAny>>, Failure> {
        region::capabilities(py, &self.domain)
    }

    /// All regions of the machine: :class:`RegionInfo <tombolo.regions.RegionInfo>`.
    fn regions<'py>(&self, py: Python<'py>) -> Result<Vec<Bound<'py, PyAny>>, Failure> {
        region::regions(py, &self.domain)
    }

    /// Starts a domain on any node: `image` is an image file or an executable. It is killed when this program
    /// ends.
    ///
    /// `given` contains capabilities that it is started with, and takes up by :meth:`given`: for each name a
    /// :class:`Capability` with ``Rights.GRANT``, and the rights that it gets.
    #[pyo3(signature = (image, *arguments, node = "host", environment = None, directory = None, given = None))]
    #[expect(clippy::too_many_arguments, reason = "they have names where they are called")]
    fn spawn(
        &self,
        py: Python<'_>,
        image: std::path::PathBuf,
        arguments: Vec<String>,
        node: &str,
        environment: Option<std::collections::BTreeMap<String, String>>,
        directory: Option<std::path::PathBuf>,
        given: Option<std::collections::BTreeMap<String, (PyRef<'_, Capability>, Rights)>>,
    ) -> Result<Child, Failure> {
        let mut options = SpawnOptions::image(image).on(node).args(arguments);
        for (name, value) in environment.unwrap_or_default() {
            options = options.env(name, value);
        }
        if let Some(directory) = directory {
            options = options.directory(directory);
        }
        // Held until the program has started.
        let mut held = Vec::new();
        for (name, (capability, rights)) in given.unwrap_or_default() {
            let capability = capability.held()?;
            options = options.give(name, &capability, rights.0);
            held.push(capability);
        }
        Ok(Child { child: py.detach(|| self.domain.spawn(&options))? })
    }

    fn __repr__(&self) -> String {
        let (id, machine) = (self.domain.id(), self.domain.machine_name());
        format!("<tombolo.Domain {id} of machine '{machine}'>")
    }
}

/// A name that this program has claimed. It is released by `close`, at the end of a ``with``, and when the
/// last reference is dropped.
#[pyclass(module = "tombolo", frozen)]
#[derive(Debug)]
pub(crate) struct Listener {
    name: String,
    state: Mutex<Option<Listening>>,
}

#[derive(Debug)]
struct Listening {
    accepts: Accepts,
    /// For event loops.
    set: Option<WaitSet>,
}

/// Type of channels that a listener accepts.
#[derive(Clone, Debug)]
enum Accepts {
    Plain(tombolo::Listener),
    Bulk(tombolo::Listener<tombolo::BulkChannel>),
}

impl Listener {
    fn new(name: &str, accepts: Accepts) -> Listener {
        Listener { name: name.to_owned(), state: Mutex::new(Some(Listening { accepts, set: None })) }
    }

    fn with<R>(&self, body: impl FnOnce(&mut Listening) -> Result<R, Failure>) -> Result<R, Failure> {
        let mut state = exclusive(&self.state, "the listener")?;
        let given_back = || Failure::new("Closed", format!("the name '{}' was given back", self.name));
        body(state.as_mut().ok_or_else(given_back)?)
    }
}

impl Listening {
    fn set(&mut self) -> Result<&mut WaitSet, Failure> {
        if self.set.is_none() {
            let mut set = WaitSet::new()?;
            match &self.accepts {
                Accepts::Plain(listener) => set.add_listener(listener)?,
                Accepts::Bulk(listener) => set.add_listener(listener)?,
            };
            self.set = Some(set);
        }
        self.set.as_mut().ok_or_else(|| Failure::busy("the listener"))
    }
}

#[pymethods]
impl Listener {
    /// The name of the listener.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The endpoint of a listener that :meth:`Domain.listen` returned; otherwise None.
    #[getter]
    fn endpoint<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyAny>>, Failure> {
        let endpoint = self.with(|listening| {
            Ok(match &listening.accepts {
                Accepts::Plain(listener) => listener.endpoint(),
                Accepts::Bulk(listener) => listener.endpoint(),
            })
        })?;
        let right = |endpoint: tombolo::Endpoint| {
            Right { object: endpoint.to_copy().object, kind: 1, moved: false }.into_python(py)
        };
        Ok(endpoint.map(right).transpose()?)
    }

    /// Creates a capability to this listener, with ``Rights.CONNECT`` and ``Rights.GRANT``. Revoking it does
    /// not close open channels.
    fn capability(&self, py: Python<'_>) -> Result<Capability, Failure> {
        let accepts = self.with(|listening| Ok(listening.accepts.clone()))?;
        let capability = py.detach(|| match accepts {
            Accepts::Plain(listener) => listener.capability(),
            Accepts::Bulk(listener) => listener.capability(),
        });
        Ok(Capability::new(capability?))
    }

    /// Waits up to `timeout` seconds for a program to connect, and opens the channel. After `Refused`,
    /// further programs can be accepted.
    #[pyo3(signature = (timeout = Seconds(std::time::Duration::from_secs(30))), text_signature = "($self, timeout=30.0)")]
    fn accept(&self, py: Python<'_>, timeout: Seconds) -> Result<Channel, Failure> {
        self.with(|listening| {
            let Accepts::Plain(listener) = &listening.accepts else {
                let text = format!("'{}' was taken up by export_bulk: accept by accept_bulk", self.name);
                return Err(Failure::invalid(text));
            };
            Ok(Channel::new(wait(py, Deadline::new(timeout.0), |slice| listener.within(slice).accept())?))
        })
    }

    /// Waits up to `timeout` seconds for a program to connect, and opens the bulk channel, for a name of
    /// :meth:`Domain.export_bulk`.
    #[pyo3(signature = (timeout = Seconds(std::time::Duration::from_secs(30))), text_signature = "($self, timeout=30.0)")]
    fn accept_bulk(&self, py: Python<'_>, timeout: Seconds) -> Result<BulkChannel, Failure> {
        self.with(|listening| {
            let Accepts::Bulk(listener) = &listening.accepts else {
                return Err(Failure::invalid(format!("'{}' was not taken up by export_bulk", self.name)));
            };
            let accept = |slice| listener.within(slice).accept();
            Ok(BulkChannel::new(wait(py, Deadline::new(timeout.0), accept)?))
        })
    }

    /// The descriptor for event loops, which belongs to the listener; see `arm`.
    fn fileno(&self) -> Result<i32, Failure> {
        use std::os::fd::{AsFd, AsRawFd};
        self.with(|listening| Ok(listening.set()?.as_fd().as_raw_fd()))
    }

    /// Prepares to wait in an event loop. False: the descriptor becomes readable when a program connects.
    /// True: `accept` will not wait for a connection.
    fn arm(&self) -> Result<bool, Failure> {
        self.with(|listening| match listening.set()?.wait(std::time::Duration::ZERO) {
            Ok(_) => Ok(true),
            Err(tombolo::Error::TimedOut { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        })
    }

    /// Releases the name. Closing again has no effect.
    fn close(&self) -> Result<(), Failure> {
        exclusive(&self.state, "the listener")?.take();
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> Result<(), Failure> {
        self.close()
    }

    fn __repr__(&self) -> String {
        let is_open = self.state.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        format!("<tombolo.Listener '{}'{}>", self.name, if is_open { "" } else { ", closed" })
    }
}

/// A domain that this program started.
#[pyclass(module = "tombolo", frozen)]
#[derive(Debug)]
pub(crate) struct Child {
    child: tombolo::Child,
}

#[pymethods]
impl Child {
    /// The id of the child.
    #[getter]
    fn id(&self) -> u64 {
        self.child.id().to_bits()
    }

    /// Waits up to `timeout` seconds until it has ended; can be called repeatedly. Returns how it ended and a
    /// number: ``("exited", status)``, ``("signalled", signal)``, ``("node_lost", 0)`` or ``("left", 0)``.
    #[pyo3(signature = (timeout = Seconds(std::time::Duration::from_secs(30))), text_signature = "($self, timeout=30.0)")]
    fn wait(&self, py: Python<'_>, timeout: Seconds) -> Result<(&'static str, u32), Failure> {
        use tombolo::Exit;
        Ok(match wait(py, Deadline::new(timeout.0), |slice| self.child.wait(slice))? {
            Exit::Exited { status } => ("exited", status.into()),
            Exit::Signalled { signal } => ("signalled", signal.into()),
            Exit::NodeLost { .. } => ("node_lost", 0),
            Exit::Left => ("left", 0),
        })
    }

    /// Asks it to end, and kills it two seconds later if it has not.
    fn kill(&self, py: Python<'_>) -> Result<(), Failure> {
        Ok(py.detach(|| self.child.kill())?)
    }
}
