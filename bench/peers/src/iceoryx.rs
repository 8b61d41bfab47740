//! iceoryx2: publish-subscribe, which polls, and events, which block.

use std::time::Duration;

use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use tombolo_bench::Patience;
use tombolo_bench::suite::content::{bulk_word, check_sum, corrupt, word};
use tombolo_bench::suite::{AnyEnd, End, Error, Meeting, Metric, Peer, Side, buffers};

const NAME: &str = "iceoryx2";
const EVENTS: &str = "iceoryx2 events";

/// Samples on their way: as many as Tombolo's rings have slots.
const DEPTH: usize = 64;

const PATIENCE: Duration = Duration::from_secs(10);

fn failed(what: &str) -> impl FnOnce(&dyn std::fmt::Debug) -> Error {
    move |why| Error::of_peer(NAME, format!("{what}: {why:?}"))
}

/// Names a library's error.
trait Named<T> {
    fn named(self, what: &str) -> Result<T, Error>;
}

impl<T, E: std::fmt::Debug> Named<T> for Result<T, E> {
    fn named(self, what: &str) -> Result<T, Error> {
        self.map_err(|error| failed(what)(&error))
    }
}

fn node() -> Result<Node<ipc::Service>, Error> {
    set_log_level(LogLevel::Error);
    NodeBuilder::new().create::<ipc::Service>().named("make a node")
}

fn service_name(meeting: &Meeting<'_>, way: &str) -> Result<ServiceName, Error> {
    ServiceName::new(&format!("{}/{way}", meeting.name)).named("name a service")
}

/// What this side sends by, and what it receives by.
fn ways(side: Side) -> (&'static str, &'static str) {
    match side {
        Side::Near => ("out", "back"),
        Side::Far => ("back", "out"),
    }
}

/// Samples of words, loaned and filled in place.
pub(crate) struct PublishSubscribe;

impl Peer for PublishSubscribe {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> String {
        format!(
            "0.10.0, publish-subscribe, samples loaned, filled and read in place; polls. {DEPTH} samples of small \
             messages, of bulk data as many as Tombolo has buffers; no overflow: the publisher waits"
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        let mut metrics = Metric::ROUND_TRIPS.to_vec();
        metrics.push(Metric::Rate { bytes: 64, batch: 1 });
        metrics.extend(Metric::BANDWIDTHS);
        metrics.extend(Metric::STANDING);
        metrics
    }

    fn open(&self, meeting: &Meeting<'_>, metric: Metric) -> Result<AnyEnd, Error> {
        let node = node()?;
        let (length, depth) = match metric {
            // One that is read, and the others on their way.
            Metric::Bandwidth { bytes } => (bytes / 8, buffers(bytes) - 1),
            _ => (1024 / 8, DEPTH),
        };
        let (out, back) = ways(meeting.side);
        let service = |way| {
            let service = node
                .service_builder(&service_name(meeting, way)?)
                .publish_subscribe::<[u64]>()
                .enable_safe_overflow(false)
                .subscriber_max_buffer_size(depth)
                .subscriber_max_borrowed_samples(1)
                .max_publishers(1)
                .max_subscribers(1);
            service.open_or_create().named("open a service")
        };
        let service_out = service(out)?;
        let publisher = service_out.publisher_builder().initial_max_slice_len(length).max_loaned_samples(1);
        let publisher = publisher
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()
            .named("make a publisher")?;
        let subscriber =
            service(back)?.subscriber_builder().buffer_size(depth).create().named("make a subscriber")?;
        Ok(AnyEnd::new(Samples { publisher, subscriber, _node: node }))
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

    #[inline(always)]
    fn take<R>(&mut self, read: impl FnOnce(&[u64]) -> R) -> Result<R, Error> {
        let mut patience = Patience::default();
        loop {
            match self.subscriber.receive().named("receive a sample")? {
                Some(sample) => return Ok(read(sample.payload())),
                None => patience.wait()?,
            }
        }
    }
}

impl End for Samples {
    #[inline(always)]
    fn send<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        self.publish(N / 8, |index| word(sequence, index))
    }

    #[inline(always)]
    fn recv<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let wrong = self.take(|words| {
            let differing = words.iter().enumerate().map(|(index, found)| found ^ word(sequence, index));
            differing.fold((words.len() ^ (N / 8)) as u64, |all, differs| all | differs)
        })?;
        if wrong == 0 { Ok(()) } else { Err(corrupt(sequence)) }
    }

    fn send_bulk(&mut self, bytes: usize, sequence: u64) -> Result<(), Error> {
        self.publish(bytes / 8, |_| bulk_word(sequence))
    }

    fn recv_bulk(&mut self, bytes: usize, sequence: u64) -> Result<(), Error> {
        let sum = self.take(|words| words.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)))?;
        check_sum(sum, bytes, sequence)
    }
}

/// Events alone, which carry a number and no message.
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
        let node = node()?;
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
        self.listener.timed_wait(|_| notices += 1, PATIENCE).named("wait for a notice")?;
        if notices == 0 { Err(Error::Stalled { waited: PATIENCE }) } else { Ok(()) }
    }
}
