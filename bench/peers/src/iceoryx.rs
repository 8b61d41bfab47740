//! iceoryx2: publish-subscribe, which polls, and events, which block.

use std::fmt::Debug;
use std::fs;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::time::Duration;

use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use tombolo_bench::SpinTimeout;
use tombolo_bench::suite::content::{bulk_word, check_sum, corrupt, word};
use tombolo_bench::suite::{AnyEnd, End, Error, Meeting, Metric, Peer, Side, buffers};

const NAME: &str = "iceoryx2";
const EVENTS: &str = "iceoryx2 events";

/// Number of samples in flight: as many as Tombolo's rings have slots.
const DEPTH: usize = 64;

/// Folder in which the library keeps samples and connections.
const SHARED_MEMORY: &str = "/dev/shm";

const TIMEOUT: Duration = Duration::from_secs(10);

fn failed(what: &str) -> impl FnOnce(&dyn Debug) -> Error {
    move |why| Error::of_peer(NAME, format!("{what}: {why:?}"))
}

/// Converts errors of the library, with the failed operation.
trait Named<T> {
    fn named(self, what: &str) -> Result<T, Error>;
}

impl<T, E: Debug> Named<T> for Result<T, E> {
    fn named(self, what: &str) -> Result<T, Error> {
        self.map_err(|error| failed(what)(&error))
    }
}

/// Prefix of all files of a run, in every folder in which the library creates them; it is followed by the
/// near side's process id.
const OURS: &str = "tombolo-bench-";

/// Creates a node whose files are distinguishable from all others, and that ignores the user's configuration
/// files.
fn node(meeting: &Meeting<'_>) -> Result<Node<ipc::Service>, Error> {
    set_log_level(LogLevel::Error);
    // The names of meetings are tombolo-bench-NEAR-FAR-NUMBER.
    let near = meeting.name.strip_prefix(OURS).and_then(|rest| rest.split('-').next()).unwrap_or("0");
    let mut config = Config::default();
    config.global.prefix = FileName::new(format!("{OURS}{near}_").as_bytes()).named("name its files")?;
    let folder = std::env::temp_dir().join(format!("{OURS}{near}"));
    let root = Path::new(folder.to_string_lossy().as_bytes()).named("name its folder")?;
    config.global.set_root_path(&root);
    NodeBuilder::new().config(&config).create::<ipc::Service>().named("make a node")
}

/// Removes the library's leftover files of this program's run and of runs that were killed: at least a state
/// of 16 bytes per connection. Files that cannot be removed stay.
pub(crate) fn sweep() {
    for folder in [PathBuf::from(SHARED_MEMORY), std::env::temp_dir()] {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten().filter(|entry| is_leftover(&entry.file_name().to_string_lossy())) {
            let removed = match entry.file_type() {
                Ok(kind) if kind.is_dir() => fs::remove_dir_all(entry.path()),
                _ => fs::remove_file(entry.path()),
            };
            // Ignores a file that cannot be removed: failing the measurement would not help.
            let _ = removed;
        }
    }
}

/// Returns whether a file or folder of that name belongs to a run whose processes have exited.
fn is_leftover(name: &str) -> bool {
    let digits = name.strip_prefix(OURS).map(|rest| rest.split('_').next().unwrap_or(rest));
    let Some(near) = digits.and_then(|digits| digits.parse::<u32>().ok()) else { return false };
    near == std::process::id() || !std::path::Path::new(&format!("/proc/{near}")).exists()
}

fn service_name(meeting: &Meeting<'_>, way: &str) -> Result<ServiceName, Error> {
    ServiceName::new(&format!("{}/{way}", meeting.name)).named("name a service")
}

/// Returns the names of the services by which this side sends and receives.
fn ways(side: Side) -> (&'static str, &'static str) {
    match side {
        Side::Near => ("out", "back"),
        Side::Far => ("back", "out"),
    }
}

/// Publish-subscribe with samples of words, loaned and filled in place.
pub(crate) struct PublishSubscribe {
    name: &'static str,
    /// Number of samples of bulk data; `None` for as many as Tombolo has buffers.
    samples: Option<usize>,
    /// Alignment of samples, in bytes.
    alignment_bytes: usize,
    /// Whether the bare hand-over is measured as well.
    hands_over: bool,
}

impl PublishSubscribe {
    /// Default settings of the library.
    pub(crate) const DEFAULT_SETTING: Self =
        PublishSubscribe { name: NAME, samples: None, alignment_bytes: 8, hands_over: false };

    /// Further settings for bulk data, since the best ones depend on the machine.
    pub(crate) const SETTINGS: [Self; 3] = [
        PublishSubscribe { hands_over: true, ..Self::DEFAULT_SETTING },
        PublishSubscribe { name: "iceoryx2 aligned", alignment_bytes: 4096, ..Self::DEFAULT_SETTING },
        PublishSubscribe {
            name: "iceoryx2 aligned deep",
            samples: Some(8),
            alignment_bytes: 4096,
            ..Self::DEFAULT_SETTING
        },
    ];

    fn is_default_setting(&self) -> bool {
        self.name == NAME
    }
}

impl Peer for PublishSubscribe {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> String {
        let bulk = match self.samples {
            None => "as many as Tombolo has buffers".to_owned(),
            Some(samples) => format!("{samples}"),
        };
        let aligned = match self.alignment_bytes {
            4096 => ", each at the beginning of a page",
            _ => "",
        };
        format!(
            "0.10.0, publish-subscribe, samples loaned, filled and read in place as plain memory; polls. {DEPTH} samples \
             of small messages, of bulk data {bulk}{aligned}; no overflow: the publisher waits. A buffer there and back \
             is a sample there and another back, untouched"
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        if !self.is_default_setting() {
            return Metric::BANDWIDTHS.to_vec();
        }
        let mut metrics = Metric::ROUND_TRIPS.to_vec();
        metrics.push(Metric::Rate { bytes: 64, batch: 1 });
        metrics.extend(Metric::BANDWIDTHS);
        metrics.extend(Metric::STANDING);
        if self.hands_over {
            metrics.extend(Metric::TRANSFERS);
        }
        metrics
    }

    fn open(&self, meeting: &Meeting<'_>, metric: Metric) -> Result<AnyEnd, Error> {
        let node = node(meeting)?;
        let shape = match metric {
            // One sample is being read, the others are in flight.
            Metric::Bandwidth { bytes } => (bytes, self.samples.unwrap_or_else(|| buffers(bytes)) - 1),
            Metric::Transfer { bytes } => {
                let (publisher, subscriber) = ports(&node, meeting, (bytes, 1), self.alignment_bytes)?;
                return Ok(AnyEnd::new(Rights { bytes, publisher, subscriber, _node: node }));
            }
            _ => (1024, DEPTH),
        };
        let (publisher, subscriber) = ports(&node, meeting, shape, self.alignment_bytes)?;
        Ok(AnyEnd::new(Samples { publisher, subscriber, _node: node }))
    }
}

type Ports<T> = (Publisher<ipc::Service, [T], ()>, Subscriber<ipc::Service, [T], ()>);

/// Creates this side's ports, for samples of up to `bytes` bytes, `count` of which can be in flight.
fn ports<T: Debug + ZeroCopySend>(
    node: &Node<ipc::Service>,
    meeting: &Meeting<'_>,
    (bytes, depth): (usize, usize),
    alignment_bytes: usize,
) -> Result<Ports<T>, Error> {
    let (out, back) = ways(meeting.side);
    let alignment = Alignment::new(alignment_bytes).ok_or(Error::Unsupported)?;
    let service = |way| {
        let service = node
            .service_builder(&service_name(meeting, way)?)
            .publish_subscribe::<[T]>()
            .payload_alignment(alignment)
            .enable_safe_overflow(false)
            .subscriber_max_buffer_size(depth)
            .subscriber_max_borrowed_samples(1)
            .max_publishers(1)
            .max_subscribers(1);
        service.open_or_create().named("open a service")
    };
    let service_out = service(out)?;
    let publisher =
        service_out.publisher_builder().initial_max_slice_len(bytes / size_of::<T>()).max_loaned_samples(1);
    let publisher = publisher
        .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
        .create()
        .named("make a publisher")?;
    let subscriber =
        service(back)?.subscriber_builder().buffer_size(depth).create().named("make a subscriber")?;
    Ok((publisher, subscriber))
}

/// Waits for a sample and applies a function to it.
#[inline(always)]
fn take<T: Debug + ZeroCopySend, R>(
    subscriber: &Subscriber<ipc::Service, [T], ()>,
    read: impl FnOnce(&[T]) -> R,
) -> Result<R, Error> {
    let mut spin_timeout = SpinTimeout::default();
    loop {
        match subscriber.receive().named("receive a sample")? {
            Some(sample) => return Ok(read(sample.payload())),
            None => spin_timeout.wait()?,
        }
    }
}

/// Hand-over of samples whose bytes are not touched.
struct Rights {
    bytes: usize,
    publisher: Publisher<ipc::Service, [MaybeUninit<u64>], ()>,
    subscriber: Subscriber<ipc::Service, [MaybeUninit<u64>], ()>,
    _node: Node<ipc::Service>,
}

impl Rights {
    fn publish(&mut self) -> Result<(), Error> {
        let sample = self.publisher.loan_slice_uninit(self.bytes / 8).named("loan a sample")?;
        // Writing uninitialized words compiles to nothing.
        sample.write_from_fn(|_| MaybeUninit::uninit()).send().named("send a sample")?;
        Ok(())
    }

    fn take(&mut self) -> Result<(), Error> {
        let words = take(&self.subscriber, <[_]>::len)?;
        if words == self.bytes / 8 { Ok(()) } else { Err(corrupt(0)) }
    }
}

impl End for Rights {
    fn send<const N: usize>(&mut self, _sequence: u64) -> Result<(), Error> {
        Err(Error::Unsupported)
    }

    fn recv<const N: usize>(&mut self, _sequence: u64) -> Result<(), Error> {
        Err(Error::Unsupported)
    }

    fn lend(&mut self) -> Result<(), Error> {
        self.publish()?;
        self.take()
    }

    fn give_back(&mut self) -> Result<(), Error> {
        self.take()?;
        self.publish()
    }
}

struct Samples {
    publisher: Publisher<ipc::Service, [u64], ()>,
    subscriber: Subscriber<ipc::Service, [u64], ()>,
    _node: Node<ipc::Service>,
}

impl Samples {
    #[inline(always)]
    fn publish(&mut self, words: usize, value: impl Fn(usize) -> u64) -> Result<(), Error> {
        let sample = self.publisher.loan_slice_uninit(words).named("loan a sample")?;
        let sample = sample.write_from_fn(value);
        sample.send().named("send a sample")?;
        Ok(())
    }
}

impl End for Samples {
    #[inline(always)]
    fn send<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        self.publish(N / 8, |index| word(sequence, index))
    }

    #[inline(always)]
    fn recv<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let wrong = take(&self.subscriber, |words| {
            let differing = words.iter().enumerate().map(|(index, found)| found ^ word(sequence, index));
            differing.fold((words.len() ^ (N / 8)) as u64, |all, differs| all | differs)
        })?;
        if wrong == 0 { Ok(()) } else { Err(corrupt(sequence)) }
    }

    fn send_bulk(&mut self, bytes: usize, sequence: u64) -> Result<(), Error> {
        self.publish(bytes / 8, |_| bulk_word(sequence))
    }

    fn recv_bulk(&mut self, bytes: usize, sequence: u64) -> Result<(), Error> {
        let sum =
            take(&self.subscriber, |words| words.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)))?;
        check_sum(sum, bytes, sequence)
    }
}

/// Events, which carry a number and no message.
pub(crate) struct Events;

impl Peer for Events {
    fn name(&self) -> &'static str {
        EVENTS
    }

    fn about(&self) -> String {
        "0.10.0, a notifier and a listener each way; blocks; carries a number and no message".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::WakeUp, Metric::Idle]
    }

    fn open(&self, meeting: &Meeting<'_>, _metric: Metric) -> Result<AnyEnd, Error> {
        let node = node(meeting)?;
        let (out, back) = ways(meeting.side);
        let service = |way| {
            node.service_builder(&service_name(meeting, way)?)
                .event()
                .open_or_create()
                .named("open a service")
        };
        let notifier = service(out)?.notifier_builder().create().named("make a notifier")?;
        let listener = service(back)?.listener_builder().create().named("make a listener")?;
        Ok(AnyEnd::new(Notices { notifier, listener, _node: node }))
    }
}

struct Notices {
    notifier: Notifier<ipc::Service>,
    listener: Listener<ipc::Service>,
    _node: Node<ipc::Service>,
}

impl End for Notices {
    fn send<const N: usize>(&mut self, _sequence: u64) -> Result<(), Error> {
        self.notifier.notify().named("notify")?;
        Ok(())
    }

    fn recv<const N: usize>(&mut self, _sequence: u64) -> Result<(), Error> {
        let mut notices = 0;
        self.listener.timed_wait(|_| notices += 1, TIMEOUT).named("wait for a notice")?;
        if notices == 0 { Err(Error::Stalled { waited: TIMEOUT }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unused_files_are_swept() {
        let own = std::process::id();
        for name in [format!("{OURS}{own}"), format!("{OURS}{own}_0123.data"), format!("{OURS}4194305_x")] {
            assert!(is_leftover(&name), "{name}");
        }
        // Process 1 always exists; the other names do not belong to a run.
        for name in
            ["tombolo-bench-1", "tombolo-bench-1_x", "tombolo-bench-", "tombolo-bench-x_1", "iox2_1", ""]
        {
            assert!(!is_leftover(name), "{name}");
        }
    }
}
